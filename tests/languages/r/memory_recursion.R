x <- numeric(300 * 1024 * 1024 / 8)
x[length(x)] <- 7
cat(sum(x), as.numeric(object.size(x)) > 3e8, "\n")
f <- function(n) if (n == 0) 0 else 1 + f(n - 1)

cat(f(500), "\n")
options(expressions = 500)
cat(class(tryCatch(f(2000), error = function(e) e))[1] != "numeric", "\n")
