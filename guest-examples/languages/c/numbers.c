// A program for WASI preview 1: `[1, 2, 3]` on stdin becomes its count, sum, least and greatest.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static int no(const char *program, int code, const char *why) {
    fprintf(stderr, "%s: %s\n", program, why);
    return code;
}

static char *skip(char *text) {
    return text + strspn(text, " \t\r\n");
}

int main(int argc, char **argv) {
    const char *program = argc > 0 ? argv[0] : "numbers";
    static char text[1 << 20];
    size_t length = fread(text, 1, sizeof text - 1, stdin);
    if (ferror(stdin) || !feof(stdin)) return no(program, EX_NOINPUT, "cannot read that much");
    text[length] = 0;

    char *at = skip(text);
    if (*at != '[') return no(program, EX_DATAERR, "the arguments must be an array of numbers");
    at = skip(at + 1);
    if (*at == ']') return no(program, EX_DATAERR, "there is no number");
    double sum = 0, least = 0, greatest = 0;
    for (unsigned count = 1;; count++) {
        char *end;
        double number = strtod(at, &end);
        if (end == at) return no(program, EX_DATAERR, "the arguments must be an array of numbers");
        sum += number;
        if (count == 1 || number < least) least = number;
        if (count == 1 || number > greatest) greatest = number;
        at = skip(end);
        if (*at == ']') {
            printf("{\"count\":%u,\"sum\":%.17g,\"least\":%.17g,\"greatest\":%.17g}\n", count, sum, least, greatest);
            return 0;
        }
        if (*at != ',') return no(program, EX_DATAERR, "the arguments must be an array of numbers");
        at = skip(at + 1);
    }
}
