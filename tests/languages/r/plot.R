# Pictures are made without a display.
file <- tempfile(fileext = ".pdf")
pdf(file); plot(1:10, main = "points"); invisible(dev.off())
cat(file.size(file) > 1000, readBin(file, "raw", 4) == charToRaw("%PDF"), "\n")
