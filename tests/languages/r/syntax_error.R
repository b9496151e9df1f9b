cat("first\n")
x <- (1 +
}
