// A program for WASI preview 1: {"csv": "a,b\n1,2"} on stdin becomes [{"a":"1","b":"2"}].
package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Exit codes, those of sysexits.h.
const (
	usage   = 64
	dataErr = 65
)

type arguments struct {
	CSV       string `json:"csv"`
	Separator string `json:"separator"`
}

func main() {
	var given arguments
	input := json.NewDecoder(os.Stdin)
	input.DisallowUnknownFields()
	if err := input.Decode(&given); err != nil {
		no(usage, err)
	}
	rows, err := convert(given)
	if err != nil {
		no(dataErr, err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(rows); err != nil {
		no(1, err)
	}
}

func no(code int, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
	os.Exit(code)
}

func convert(given arguments) ([]map[string]string, error) {
	reader := csv.NewReader(strings.NewReader(given.CSV))
	if separator := []rune(given.Separator); len(separator) == 1 {
		reader.Comma = separator[0]
	}
	head, err := reader.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("there is no line with the names of the columns")
	} else if err != nil {
		return nil, err
	}
	rows := []map[string]string{}
	for {
		line, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, err
		}
		row := map[string]string{}
		for at, name := range head {
			row[name] = line[at]
		}
		rows = append(rows, row)
	}
}
