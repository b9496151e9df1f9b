inner <- function(x) stop("nobody caught me: ", x)
cat("before\n")
inner(3)
cat("never\n")
