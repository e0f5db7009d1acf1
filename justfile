# One-line wrappers around `scripts/`.

# List the recipes.
default:
    @just --list

# Serve on 127.0.0.1:20128.
serve *ARGS:
    cargo run --release -- serve {{ARGS}}

# Build all guests.
guests *ARGS:
    scripts/guests {{ARGS}}

# Build the guests in other languages.
guests-languages *ARGS:
    scripts/guests-languages {{ARGS}}

# Everything that CI runs, or the named stages of it.
test *STAGES:
    scripts/test {{STAGES}}

# Check the dependencies' licences, bans and sources; or `advisories`.
deny *CHECKS:
    scripts/deny {{CHECKS}}

# Compare with a bare server and with the peers.
bench *ARGS:
    scripts/bench {{ARGS}}

# Install those peers.
bench-peers *ARGS:
    scripts/bench-peers {{ARGS}}

# Make the release tarball.
package *ARGS:
    scripts/package {{ARGS}}
