t <- as.POSIXct(1730000000, origin = "1970-01-01", tz = "UTC")
for (zone in c("UTC", "Europe/Berlin", "Asia/Kolkata")) cat(format(t, tz = zone, usetz = TRUE), "\n")
print(seq(as.Date("2024-02-28"), by = "day", length.out = 3))
print(difftime(as.POSIXct("2024-03-01", tz = "UTC"), as.POSIXct("2024-02-01", tz = "UTC")))
