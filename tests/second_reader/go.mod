module second_reader

go 1.26

require github.com/klauspost/compress v1.18.0
