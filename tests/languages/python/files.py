# Directories, atomic replacement, links, modes, temporary files, archives, SQLite.
import os, pathlib, shutil, sqlite3, tarfile, tempfile, zipfile
base = pathlib.Path(tempfile.mkdtemp())
(base / "a" / "b").mkdir(parents=True)
(base / "a" / "b" / "ä.txt").write_text("grüße\n", encoding="utf-8")
os.symlink("b/ä.txt", base / "a" / "link")
os.replace(base / "a" / "b" / "ä.txt", base / "a" / "b" / "z.txt")
print((base / "a" / "link").exists(), sorted(p.name for p in base.rglob("*")))
(base / "a" / "b" / "z.txt").chmod(0o640)
print(oct((base / "a" / "b" / "z.txt").stat().st_mode & 0o777))
with zipfile.ZipFile(base / "x.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("big", b"0" * 100000)
print((base / "x.zip").stat().st_size < 1000)
with tarfile.open(base / "x.tar.xz", "w:xz") as t:
    t.add(base / "a", "a")
print(sorted(tarfile.open(base / "x.tar.xz").getnames()))
db = sqlite3.connect(base / "db")
db.execute("create table t (n integer, s text)")
db.executemany("insert into t values (?, ?)", [(i, "v%d" % i) for i in range(1000)])
db.commit()
print(db.execute("select count(*), sum(n), max(s) from t").fetchone())
db.close()
shutil.rmtree(base)
print(base.exists())
