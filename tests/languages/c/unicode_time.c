#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

int main(void)
{
	const char *s = "grüße 日本";
	wchar_t w[32];
	time_t t = 1730000000;
	char text[64];

	setlocale(LC_ALL, "C.UTF-8");
	printf("%zu %zu\n", strlen(s), mbstowcs(w, s, 32));
	for (wchar_t *p = w; *p; p++)
		*p = towupper(*p);
	printf("%ls\n", w);
	for (int i = 0; i < 2; i++) {
		setenv("TZ", i ? "America/New_York" : "Europe/Berlin", 1);
		tzset();
		strftime(text, sizeof text, "%F %T %Z", localtime(&t));
		puts(text);
	}
	return 0;
}
