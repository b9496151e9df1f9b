x <- as.integer("text")
cat(is.na(x), "runs all the same\n")
