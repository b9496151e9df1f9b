csv <- 'name,qty,day
"Smith, J.",3,2024-05-01
Ann,4,2024-05-02
Ann,5,2024-05-03
'
d <- read.csv(text = csv)
print(aggregate(qty ~ name, d, sum))
d$day <- as.Date(d$day)
print(d[order(-d$qty), ])
print(tapply(d$qty, d$name, mean))
str(merge(d, data.frame(name = "Ann", age = 30)))
