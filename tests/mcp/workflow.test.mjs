// SPDX-License-Identifier: MIT
// What a client does with a sandbox that lasts, in each language that is ready on this host: a program of several files
// is written, run, changed and run again; and the same with servers that are killed in between.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, describe } from 'node:test';
import { nsbox, until, processOf } from './helpers.mjs';
import { Sandbox, connectTools, test } from './sandboxes.mjs';

const DATA = '2\n3\n37\n';

// Each reads numbers from data.txt, has its other file double their sum, prints that and writes it to made.txt.
// `edit` makes the other file triple it; `code` uses the other file, too. The first file is the program.
const programs = {
	bash: {
		files: {
			'main.sh': 'source ./helper.sh\nsum=0\nwhile read -r n; do sum=$((sum + n)); done <data.txt\nscaled "$sum" | tee made.txt\n',
			'helper.sh': 'scaled() { echo "scaled $(($1 * 2))"; }\n',
		},
		edit: ['helper.sh', '* 2', '* 3'],
		code: 'source ./helper.sh\nscaled 5\n',
	},
	c: {
		files: {
			'main.c': `#include <stdio.h>
#include "helper.h"
int main(void)
{
	FILE *in = fopen("data.txt", "r"), *out = fopen("made.txt", "w");
	int sum = 0, n;
	while (fscanf(in, "%d", &n) == 1)
		sum += n;
	fprintf(out, "scaled %d\\n", scaled(sum));
	printf("scaled %d\\n", scaled(sum));
	return 0;
}
`,
			'helper.h': 'static inline int scaled(int n) { return n * 2; }\n',
		},
		edit: ['helper.h', '* 2', '* 3'],
		code: '#include <stdio.h>\n#include "helper.h"\nint main(void) { printf("scaled %d\\n", scaled(5)); }\n',
	},
	cpp: {
		files: {
			'main.cpp': `#include <fstream>
#include <iostream>
#include "helper.hpp"
int main()
{
	std::ifstream in("data.txt");
	std::ofstream out("made.txt");
	int sum = 0;
	for (int n; in >> n;)
		sum += n;
	out << "scaled " << scaled(sum) << "\\n";
	std::cout << "scaled " << scaled(sum) << std::endl;
}
`,
			'helper.hpp': 'template <typename T> T scaled(T n) { return n * 2; }\n',
		},
		edit: ['helper.hpp', '* 2', '* 3'],
		code: '#include <iostream>\n#include "helper.hpp"\nint main() { std::cout << "scaled " << scaled(5) << std::endl; }\n',
	},
	go: {
		files: {
			'main.go': `package main

import (
	"example/scale"
	"os"
)

func main() {
	data, _ := os.ReadFile("data.txt")
	line := scale.Line(scale.Sum(string(data)))
	os.WriteFile("made.txt", []byte(line), 0o644)
	os.Stdout.WriteString(line)
}
`,
			'go.mod': 'module example\n',
			'scale/scale.go': `package scale

import (
	"strconv"
	"strings"
)

func Sum(text string) (total int) {
	for _, word := range strings.Fields(text) {
		n, _ := strconv.Atoi(word)
		total += n
	}
	return
}

func Line(n int) string { return "scaled " + strconv.Itoa(n*2) + "\\n" }
`,
		},
		edit: ['scale/scale.go', 'n*2', 'n*3'],
		code: 'package main\n\nimport (\n\t"example/scale"\n\t"os"\n)\n\nfunc main() { os.Stdout.WriteString(scale.Line(5)) }\n',
	},
	java: {
		files: {
			'Main.java': `import java.nio.file.*;
public class Main {
	public static void main(String[] args) throws Exception {
		int sum = Files.readAllLines(Path.of("data.txt")).stream().mapToInt(Integer::parseInt).sum();
		Files.writeString(Path.of("made.txt"), Helper.scaled(sum) + "\\n");
		System.out.println(Helper.scaled(sum));
	}
}
`,
			'Helper.java': 'class Helper {\n\tstatic String scaled(int n) { return "scaled " + n * 2; }\n}\n',
		},
		edit: ['Helper.java', '* 2', '* 3'],
		code: 'public class Other {\n\tpublic static void main(String[] args) { System.out.println(Helper.scaled(5)); }\n}\n',
	},
	javascript: {
		files: {
			'main.js': `const fs = require('fs'), { scaled } = require('./helper');
const sum = fs.readFileSync('data.txt', 'utf8').trim().split('\\n').reduce((sum, n) => sum + Number(n), 0);
fs.writeFileSync('made.txt', scaled(sum) + '\\n');
console.log(scaled(sum));
`,
			'helper.js': 'exports.scaled = n => `scaled ${n * 2}`;\n',
		},
		edit: ['helper.js', '* 2', '* 3'],
		code: "console.log(require('./helper').scaled(5));\n",
	},
	lua: {
		files: {
			'main.lua': `local helper = require("helper")
local sum = 0
for line in io.lines("data.txt") do sum = sum + math.floor(tonumber(line)) end
local out = io.open("made.txt", "w")
out:write(helper.scaled(sum), "\\n")
out:close()
print(helper.scaled(sum))
`,
			'helper.lua': 'return { scaled = function(n) return string.format("scaled %d", n * 2) end }\n',
		},
		edit: ['helper.lua', '* 2', '* 3'],
		code: 'print(require("helper").scaled(5))\n',
	},
	perl: {
		files: {
			'main.pl': `use strict; use warnings; use lib '.';
use Helper;
open my $in, '<', 'data.txt' or die $!;
my $sum = 0;
$sum += $_ while <$in>;
open my $out, '>', 'made.txt' or die $!;
print $out Helper::scaled($sum), "\\n";
print Helper::scaled($sum), "\\n";
`,
			'Helper.pm': 'package Helper;\nsub scaled { return "scaled " . $_[0] * 2 }\n1;\n',
		},
		edit: ['Helper.pm', '* 2', '* 3'],
		code: "use lib '.'; use Helper; print Helper::scaled(5), \"\\n\";\n",
	},
	php: {
		files: {
			'main.php': `<?php
require 'lib/helper.php';
$sum = array_sum(file('data.txt'));
file_put_contents('made.txt', scaled($sum) . "\\n");
echo scaled($sum), "\\n";
`,
			'lib/helper.php': '<?php\nfunction scaled($n) { return "scaled " . $n * 2; }\n',
		},
		edit: ['lib/helper.php', '* 2', '* 3'],
		code: "<?php include 'lib/helper.php'; echo scaled(5), \"\\n\";\n",
	},
	python: {
		files: {
			'main.py': `from helpers.numbers import scaled
total = sum(int(line) for line in open("data.txt"))
with open("made.txt", "w") as made:
    print(scaled(total), file=made)
print(scaled(total))
`,
			'helpers/numbers.py': 'def scaled(n):\n    return f"scaled {n * 2}"\n',
		},
		edit: ['helpers/numbers.py', '* 2', '* 3'],
		code: 'from helpers.numbers import scaled\nprint(scaled(5))\n',
	},
	r: {
		files: {
			'main.R': `source("helper.R")
sum <- sum(scan("data.txt", quiet = TRUE))
writeLines(scaled(sum), "made.txt")
writeLines(scaled(sum))
`,
			'helper.R': 'scaled <- function(n) sprintf("scaled %d", as.integer(n * 2))\n',
		},
		edit: ['helper.R', '* 2', '* 3'],
		code: 'source("helper.R")\nwriteLines(scaled(5))\n',
	},
	ruby: {
		files: {
			'main.rb': `require_relative 'helper'
sum = File.readlines('data.txt').sum(&:to_i)
File.write('made.txt', scaled(sum) + "\\n")
puts scaled(sum)
`,
			'helper.rb': 'def scaled(n) = "scaled #{n * 2}"\n',
		},
		edit: ['helper.rb', '* 2', '* 3'],
		code: "require_relative 'helper'\nputs scaled(5)\n",
	},
	rust: {
		files: {
			'main.rs': `mod helper;
use std::fs;

fn main() {
    let data = fs::read_to_string("data.txt").unwrap();
    let sum: i64 = data.lines().map(|line| line.parse::<i64>().unwrap()).sum();
    fs::write("made.txt", helper::scaled(sum) + "\\n").unwrap();
    println!("{}", helper::scaled(sum));
}
`,
			'helper.rs': 'pub fn scaled(n: i64) -> String {\n    format!("scaled {}", n * 2)\n}\n',
		},
		edit: ['helper.rs', '* 2', '* 3'],
		code: 'mod helper;\nfn main() { println!("{}", helper::scaled(5)); }\n',
	},
	typescript: {
		files: {
			'main.ts': `import { readFileSync, writeFileSync } from 'fs';
import { scaled } from './helper';
const sum: number = readFileSync('data.txt', 'utf8').trim().split('\\n').reduce((sum: number, n: string) => sum + Number(n), 0);
writeFileSync('made.txt', scaled(sum) + '\\n');
console.log(scaled(sum));
`,
			'helper.ts': 'export const scaled = (n: number): string => `scaled ${n * 2}`;\n',
		},
		edit: ['helper.ts', '* 2', '* 3'],
		code: "import { scaled } from './helper';\nconsole.log(scaled(5));\n",
	},
};

// Other ways in which programs of a language are made of files. Each says «right» in the end; the first is the program,
// unless `run` says something else.
const ways = {
	bash: {
		'beside itself, and executed': { files: {
			'bin/main.sh': '. "$(dirname "$0")/helper.sh"\nword\n',
			'bin/helper.sh': 'word() { chmod +x bin/word; ./bin/word; }\n',
			'bin/word': '#!/bin/bash\necho right\n',
		} },
	},
	c: {
		'several sources': { run: { command: 'gcc main.c helper.c -o main && ./main' }, files: {
			'main.c': '#include "helper.h"\nint main(void) { word(); }\n',
			'helper.h': 'void word(void);\n',
			'helper.c': '#include <stdio.h>\nvoid word(void) { puts("right"); }\n',
		} },
		'a source that is included, below': { files: {
			'src/main.c': '#include "inc/helper.c"\nint main(void) { word(); }\n',
			'src/inc/helper.c': '#include <stdio.h>\nvoid word(void) { puts("right"); }\n',
		} },
	},
	cpp: {
		'several sources': { run: { command: ['sh', '-c', 'g++ *.cpp -o main && ./main'] }, files: {
			'main.cpp': '#include "helper.h"\nint main() { word(); }\n',
			'helper.h': 'void word();\n',
			'helper.cpp': '#include <cstdio>\nvoid word() { std::puts("right"); }\n',
		} },
	},
	go: {
		'two files of a package': { run: { command: 'go run .' }, files: {
			'main.go': 'package main\n\nfunc main() { println2(word()) }\n',
			'helper.go': 'package main\n\nimport "os"\n\nfunc println2(s string) { os.Stdout.WriteString(s + "\\n") }\nfunc word() string { return "right" }\n',
			'go.mod': 'module example\n\ngo 1.19\n',
		} },
	},
	java: {
		'several classes': { run: { command: 'javac *.java && java Main' }, files: {
			'Main.java': 'public class Main { public static void main(String[] a) { System.out.println(Word.text()); } }\n',
			'Word.java': 'public class Word { static String text() { return "right"; } }\n',
		} },
		'packages': { run: { file: 'app/Main.java' }, files: {
			'app/Main.java': 'package app;\nimport lib.Word;\npublic class Main { public static void main(String[] a) { System.out.println(Word.text()); } }\n',
			'lib/Word.java': 'package lib;\npublic class Word { public static String text() { return "right"; } }\n',
		} },
		'a file beside the class': { files: {
			'Main.java': 'import java.nio.file.*;\nclass Main { public static void main(String[] a) throws Exception { System.out.print(new String(Main.class.getResourceAsStream("/word.txt").readAllBytes())); } }\n',
			'word.txt': 'right\n',
		} },
	},
	javascript: {
		'modules by their extension': { files: {
			'main.mjs': "import { word } from './helper.mjs';\nimport data from './data.cjs';\nconsole.log(word, ...data);\n",
			'helper.mjs': "export const word = 'right';\n",
			'data.cjs': 'module.exports = [];\n',
		} },
		'modules that nothing says are modules': { files: {
			'main.js': "import { word } from './lib/helper.js';\nconsole.log(await word);\n",
			'lib/helper.js': "export const word = Promise.resolve('right');\n",
		} },
		'modules by package.json': { files: {
			'main.js': "import { word } from './helper.js';\nconsole.log(word);\n",
			'helper.js': "import { createRequire } from 'module';\nexport const { word } = createRequire(import.meta.url)('./word.json');\n",
			'word.json': '{ "word": "right" }\n',
			'package.json': '{ "type": "module" }\n',
		} },
		'a module of code': { run: { code: "import { word } from './helper.mjs';\nimport { readFileSync } from 'node:fs';\nconsole.log(word + readFileSync(new URL('rest.txt', import.meta.url)));\n" }, files: {
			'helper.mjs': "export const word = 'ri';\n",
			'rest.txt': 'ght',
		} },
		'node_modules': { files: {
			'main.js': "console.log(require('words').word, ...require('.'));\n",
			'index.js': 'module.exports = [];\n',
			'node_modules/words/package.json': '{ "main": "lib.js" }\n',
			'node_modules/words/lib.js': "exports.word = 'right';\n",
		} },
	},
	lua: {
		'modules in directories': { files: {
			'main.lua': 'print(require("lib.helper").word .. require("rest"))\n',
			'lib/helper.lua': 'return { word = "ri" }\n',
			'rest/init.lua': 'return "ght"\n',
		} },
		'dofile': { files: { 'main.lua': 'dofile("helper.lua")\nprint(word)\n', 'helper.lua': 'word = "right"\n' } },
	},
	perl: {
		'modules beside the program': { files: {
			'bin/main.pl': 'use FindBin; use lib "$FindBin::Bin/../lib"; use My::Word; print My::Word::text(), "\\n";\n',
			'lib/My/Word.pm': 'package My::Word; sub text { "right" } 1;\n',
		} },
		'require': { files: { 'main.pl': "require './helper.pl'; print word();\n", 'helper.pl': 'sub word { "right\\n" } 1;\n' } },
	},
	php: {
		'beside the file, and with namespaces': { files: {
			'src/main.php': "<?php\nrequire_once __DIR__ . '/Word.php';\nuse App\\Word;\necho Word::text(), PHP_EOL;\n",
			'src/Word.php': "<?php\nnamespace App;\nclass Word { static function text() { return include 'word.inc'; } }\n",
			'src/word.inc': "<?php return 'right';\n",
		} },
	},
	python: {
		'a package, by -m': { run: { command: 'python3 -m pkg' }, files: {
			'pkg/__main__.py': 'from . import word\nfrom .sub.rest import rest\nprint(word + rest)\n',
			'pkg/__init__.py': "word = 'ri'\n",
			'pkg/sub/__init__.py': '',
			'pkg/sub/rest.py': "from .. import word\nrest = 'ght' if word else ''\n",
		} },
		'modules and files beside the program': { files: {
			'app/main.py': 'import helper, pathlib\nprint(helper.word + pathlib.Path(__file__).with_name("rest.txt").read_text())\n',
			'app/helper.py': "word = 'ri'\n",
			'app/rest.txt': 'ght',
		} },
		'tests': { run: { command: 'python3 -m unittest -q 2>test.log && echo right || cat test.log' }, files: {
			'test_word.py': 'import unittest, helper\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(helper.word, 1)\n',
			'helper.py': 'word = 1\n',
		} },
		'multiprocessing': { files: {
			'main.py': "import multiprocessing, helper\nif __name__ == '__main__':\n    multiprocessing.set_start_method('spawn')\n    with multiprocessing.Pool(2) as pool:\n        print(''.join(pool.map(helper.part, range(2))))\n",
			'helper.py': "def part(i):\n    return ['ri', 'ght'][i]\n",
		} },
	},
	r: {
		'sources in directories': { files: {
			'main.R': 'source(file.path("R", "helper.R"))\nword(read.csv("rest.csv")$rest[1])\n',
			'R/helper.R': 'word <- function(rest) cat("ri", rest, "\\n", sep = "")\n',
			'rest.csv': 'rest\nght\n',
		} },
	},
	ruby: {
		'require and load': { files: {
			'main.rb': "require './lib/helper'\nload 'rest.rb'\nrequire_relative 'lib/more'\nputs Helper::WORD + REST\n",
			'lib/helper.rb': "module Helper\n  WORD = 'ri'\nend\n",
			'lib/more.rb': '',
			'rest.rb': "REST = 'ght'\n",
		} },
	},
	rust: {
		'modules in directories, and text': { files: {
			'main.rs': 'mod parts;\nfn main() {\n    println!("{}{}", parts::word(), include_str!("rest.txt"));\n}\n',
			'parts/mod.rs': 'mod inner;\npub fn word() -> &\'static str {\n    inner::WORD\n}\n',
			'parts/inner.rs': 'pub const WORD: &str = "ri";\n',
			'rest.txt': 'ght',
		} },
		'cargo': { needs: 'cargo', run: { command: 'cargo run -q --offline' }, files: {
			'src/main.rs': 'mod helper;\nfn main() {\n    println!("{}", helper::WORD);\n}\n',
			'src/helper.rs': 'pub const WORD: &str = "right";\n',
			'Cargo.toml': '[package]\nname = "words"\nversion = "0.1.0"\nedition = "2021"\n',
		} },
	},
	typescript: {
		'names of what is compiled, and a folder': { files: {
			'main.ts': "import { word } from './helper.js';\nimport { rest } from './lib';\nimport type { Text } from './lib/types';\nconst all: Text = word + rest;\nconsole.log(all);\n",
			'helper.ts': "export const word: string = 'ri';\n",
			'lib/index.ts': "export * from './rest';\n",
			'lib/rest.ts': "export const rest = 'ght';\n",
			'lib/types.ts': 'export type Text = string;\n',
		} },
		'code': { run: { code: "import { word } from './helper.js';\nimport * as fs from 'fs';\nconsole.log(word + fs.readFileSync('rest.txt'));\n" }, files: {
			'helper.ts': "export enum Part { First = 'ri' }\nexport const word: string = Part.First;\n",
			'rest.txt': 'ght',
		} },
		'below': { files: {
			'src/main.ts': "import { word } from '../lib/helper';\nconsole.log(word);\n",
			'lib/helper.ts': "export default interface Word { text: string }\nexport const word: Word['text'] = 'right';\n",
		} },
		'a package': { files: {
			'main.ts': "import { word } from 'words';\nconst text: string = word;\nconsole.log(text);\n",
			'node_modules/words/package.json': '{ "main": "lib.js", "types": "lib.d.ts" }\n',
			'node_modules/words/lib.js': "exports.word = 'right';\n",
			'node_modules/words/lib.d.ts': 'export declare const word: string;\n',
		} },
		'a module of JavaScript': { files: {
			'main.ts': "import { word } from './helper.mjs';\nconsole.log(word);\n",
			'helper.mjs': "export const word = 'right';\n",
		} },
	},
};

const states = JSON.parse(execFileSync(nsbox, ['languages', '--json'], { encoding: 'utf8' }));
const unready = name => states.find(state => state.name === name)?.error || false;

// Something that is there only where its language is.
const eachProgram = (title, body) => describe(title, { concurrency: 2 }, () => {
	for (const [language, program] of Object.entries(programs))
		test(language, { skip: unready(language) }, () => body(language, program));
});

function fits(result, stdout) {
	assert.equal(result.stdout, stdout, `${result.message} ${result.stderr}`);
	assert.equal(result.exit_code, 0);
}

// The steps; `step(f)` calls f with a sandbox, once it has an id.
async function work(language, { files, edit, code }, step) {
	const main = Object.keys(files)[0], timeout = 240;
	await step(null, language);
	for (const [path, content] of Object.entries({ ...files, 'data.txt': DATA }))
		await step(box => box.write(path, content));
	fits(await step(box => box.exec({ file: main, timeout })), 'scaled 84\n');
	assert.equal(await step(box => box.read('made.txt')), 'scaled 84\n');
	const { entries } = await step(box => box.list('/workspace', { recursive: true }));
	const found = entries.filter(entry => entry.type === 'file').map(entry => entry.name).sort();
	assert.deepEqual(found, [...Object.keys(files), 'data.txt', 'made.txt'].sort());
	const [path, from, to] = edit;
	assert.equal((await step(box => box.tool('edit_file', { path, old_text: from, new_text: to }))).replaced, 1);
	fits(await step(box => box.exec({ file: main, timeout })), 'scaled 126\n');
	assert.equal(await step(box => box.read('made.txt')), 'scaled 126\n');
	fits(await step(box => box.exec({ code, timeout })), 'scaled 15\n');
	await step(box => box.stop());
}

let shared;
const server = () => shared ??= connectTools({ args: ['--max-sessions', '64'] });
after(async () => (await shared)?.close());

eachProgram('a program of several files is written, run, changed and run again', async (language, program) => {
	const { initialize } = await server();
	let box;

	await work(language, program, async action => action ? action(box) : box = await initialize({ language }));
});

eachProgram('the same, with a server that is killed after each step', async (language, program) => {
	let id;

	await work(language, program, async action => {
		const { tool, initialize, pid } = await connectTools({ args: ['--max-sessions', '64'] });
		const result = action ? await action(new Sandbox(tool, id)) : id = (await initialize({ language })).id;

		process.kill(pid, 'SIGKILL');
		await until('the end of the server', () => !processOf(pid) || processOf(pid).state === 'Z');
		return result;
	});
});

// Of folders in which nothing is newer than two seconds go keeps an index in its cache, which is not to be written to.
test('go: a package that was there before', { skip: unready('go') }, async () => {
	const { initialize } = await server(), box = await initialize({ language: 'go' });
	for (const [path, content] of Object.entries({ ...programs.go.files, 'data.txt': DATA }))
		await box.write(path, content);
	await box.output('find . -exec touch -d "1 hour ago" {} +');
	fits(await box.exec({ file: 'main.go', timeout: 240 }), 'scaled 84\n');
	await box.stop();
});

describe('other ways to be made of files', { concurrency: 2 }, () => {
	for (const [language, titles] of Object.entries(ways))
		for (const [title, { files, run, needs }] of Object.entries(titles))
			test(`${language}: ${title}`, { skip: unready(language) }, async t => {
				const { initialize } = await server();
				const box = await initialize({ language });

				for (const [path, content] of Object.entries(files))
					await box.write(path, content);
				if (needs && (await box.exec(`command -v ${needs}`)).exit_code !== 0)
					t.skip(`${needs} is not there`);
				else
					fits(await box.exec({ timeout: 240, ...(run ?? { file: Object.keys(files)[0] }) }), 'right\n');
				await box.stop();
			});
});
