# Normalization, case, width in bytes; time zones and the end of daylight saving time.
import datetime, locale, sys, unicodedata, zoneinfo
s = "e\u0301 ﬁ Straße 日本 👩‍💻"
print(len(s), len(s.encode()), unicodedata.normalize("NFC", s)[0], s.upper())
print(sys.stdout.encoding.lower(), sys.getfilesystemencoding())
berlin = zoneinfo.ZoneInfo("Europe/Berlin")
night = datetime.datetime(2024, 10, 27, 0, 30, tzinfo=datetime.timezone.utc)
for hours in range(3):
    print((night + datetime.timedelta(hours=hours)).astimezone(berlin).isoformat())
print(datetime.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo("Asia/Kolkata")).utcoffset())
