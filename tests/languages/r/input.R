cat(paste0("[", commandArgs(trailingOnly = TRUE), "]", collapse = ""), Sys.getenv("GREETING"), "\n")
n <- suppressWarnings(as.integer(readLines(file("stdin"))))
cat(sum(n, na.rm = TRUE), "\n")
quit(status = 4)
