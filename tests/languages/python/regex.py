import re
log = "2024-05-01 ERROR disk full (code=28)\n2024-05-02 INFO ok\n2024-05-03 ERROR timeout (code=110)\n"
pattern = re.compile(r"^(?P<day>\d{4}-\d{2}-\d{2}) ERROR (?P<what>.+?) \(code=(?P<code>\d+)\)$", re.M)
for match in pattern.finditer(log):
    print(match["day"], match["what"], int(match["code"]))
print(re.sub(r"(\w+)@(\w+)\.org", r"\2 at \1", "ann@example.org, bob@sample.org"))
print(re.findall(r"(?<![a-z])[aeiou]\w*", "an old owl ate it easily"))
