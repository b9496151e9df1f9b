#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	char csv[] = "ann,3\nbob,4\nann,5\n";
	regex_t regex;
	regmatch_t m[3];
	long sum = 0;

	for (char *save, *line = strtok_r(csv, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		sum += strtol(strchr(line, ',') + 1, NULL, 10);
	printf("%ld\n", sum);
	if (regcomp(&regex, "^([0-9-]+) ERROR code=([0-9]+)$", REG_EXTENDED))
		return 1;
	const char *text = "2024-05-01 ERROR code=28";
	if (regexec(&regex, text, 3, m, 0))
		return 1;
	printf("%.*s %.*s\n", (int)(m[1].rm_eo - m[1].rm_so), text + m[1].rm_so, (int)(m[2].rm_eo - m[2].rm_so), text + m[2].rm_so);
	regfree(&regex);
	return 0;
}
