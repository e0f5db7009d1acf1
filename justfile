# One-line wrappers around `scripts/`.

# Serve on 127.0.0.1:20128.
serve:
    cargo run --release -- serve

# Build all guests.
guests:
    scripts/guests

# Everything that CI runs.
test:
    scripts/test
