print(system2("sort", "-rn", input = c("3", "10", "2"), stdout = TRUE))
cat(system("exit 7"), "\n")
p <- pipe("printf 'a b' | wc -w"); cat(as.integer(readLines(p)), "\n"); close(p)
