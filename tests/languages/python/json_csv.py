# CSV in, JSON out, with quotes, commas and line ends inside of fields.
import csv, io, json
rows = list(csv.DictReader(io.StringIO('name,qty,note\n"Smith, J.",3,"says ""hi"""\nÅsa,4,"two\nlines"\n')))
for row in rows:
    row["qty"] = int(row["qty"])
text = json.dumps({"rows": rows, "total": sum(r["qty"] for r in rows)}, ensure_ascii=False, sort_keys=True)
print(text)
assert json.loads(text)["rows"][0]["name"] == "Smith, J."
