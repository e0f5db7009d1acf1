module examples/csv

go 1.24
