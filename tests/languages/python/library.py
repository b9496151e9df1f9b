# Every module of Python's own library can be imported (those for other systems, or of Tk, aside).
import importlib, importlib.util, sys, warnings
warnings.simplefilter("ignore")
elsewhere = {"_curses_panel", "_msi", "_overlapped", "_scproxy", "_winapi", "_wmi", "_gdbm", "_dbm", "antigravity",
             "asyncio.windows_events", "idlelib", "msilib", "msvcrt", "nt", "ntpath", "this", "tkinter", "turtle",
             "turtledemo", "_tkinter", "winreg", "winsound", "_ios_support", "_android_support"}
packaged = {"distutils", "ensurepip", "lib2to3", "venv"}  # apart from python3, by Debian
failed = []
names = sorted(sys.stdlib_module_names - elsewhere) if hasattr(sys, "stdlib_module_names") else ["os"]
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        if name in packaged and importlib.util.find_spec(name) is None:
            continue
        failed.append("%s: %s" % (name, error))
print(len(names) > 200, failed)
