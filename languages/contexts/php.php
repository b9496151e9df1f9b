<?php
/*
 * SPDX-License-Identifier: MIT
 *
 * A PHP that is kept between cells of code.
 *
 * A cell is a file that is included at the top of this one, so that its variables are global; a stream wrapper,
 * which is there for as long as that file is opened, gives it its name, <cell N>. Code may begin with <?php or
 * not, and its last semicolon may be missing. The value of the last statement is the result, where that is an
 * expression; assignments and null are none. What `use` imports at the top of a cell is there in the cells that
 * follow.
 *
 *	Nsbox::display($value), Nsbox::display('<b>bold</b>', 'text/html'), Nsbox::display($bytes, 'image/png')
 *
 * Descriptors. PHP cannot keep from programs what it was started with. It can where it opens a file itself
 * (fopen's "e"), but not by /proc/self/fd, as it follows links by their text. So a shell (php.sh in the
 * language's file) passes the protocol on through two FIFOs, which are gone once they are open.
 *
 * Interrupts. The handler of SIGINT throws, while a cell runs; else the signal is ignored. That is the extension
 * pcntl; without it an interrupt ends PHP, and the shell says why.
 *
 * `exit` in a cell ends the cell: it is replaced by a call that throws. In files that a cell includes it ends the
 * context, as fatal errors do; both are said, in a shutdown function. A function or class cannot be declared
 * twice in PHP. One that a cell declares again in the same words is left out; with others it is an error, before
 * the cell runs.
 */

final class Nsbox
{
    /** Shows a value, or where a MIME type is given, a representation, while a cell runs. */
    public static function display(mixed $value, ?string $mime = null): void
    {
        NsboxContext::display($value, $mime);
    }
}

/** What ends a cell: an interrupt, or exit with a status. */
final class NsboxLeave extends Error
{
    public function __construct(public readonly ?int $status)
    {
        parent::__construct($status === null ? 'interrupted' : "status $status");
    }
}

/** The file of a cell. */
final class NsboxCell
{
    /** @var resource|null */
    public $context;
    private int $position = 0;

    public function stream_open(): bool
    {
        stream_wrapper_restore('file');
        NsboxContext::$opened = true;
        return true;
    }

    public function stream_read(int $count): string
    {
        $data = substr(NsboxContext::$code, $this->position, $count);
        $this->position += strlen($data);
        return $data;
    }

    public function stream_eof(): bool
    {
        return $this->position >= strlen(NsboxContext::$code);
    }

    /** @return array<string, int> */
    public function stream_stat(): array
    {
        return ['mode' => 0100644, 'size' => strlen(NsboxContext::$code)];
    }

    public function stream_set_option(): bool
    {
        return false;
    }
}

/** A cell's code, made into a file. */
final class NsboxSource
{
    /** What statements begin with that have no value. */
    private const STATEMENTS = [
        T_ECHO, T_PRINT, T_IF, T_ELSE, T_ELSEIF, T_ENDIF, T_WHILE, T_ENDWHILE, T_FOR, T_ENDFOR, T_FOREACH, T_ENDFOREACH,
        T_SWITCH, T_ENDSWITCH, T_CASE, T_DEFAULT, T_DO, T_TRY, T_CATCH, T_FINALLY, T_RETURN, T_CLASS, T_ABSTRACT,
        T_FINAL, T_INTERFACE, T_TRAIT, T_USE, T_NAMESPACE, T_DECLARE, T_ENDDECLARE, T_CONST, T_GLOBAL, T_UNSET, T_THROW,
        T_GOTO, T_BREAK, T_CONTINUE, T_INLINE_HTML, T_OPEN_TAG, T_OPEN_TAG_WITH_ECHO, T_CLOSE_TAG, T_ATTRIBUTE, T_HALT_COMPILER,
    ];
    private const ASSIGNMENTS = [
        '=', T_PLUS_EQUAL, T_MINUS_EQUAL, T_MUL_EQUAL, T_POW_EQUAL, T_DIV_EQUAL, T_CONCAT_EQUAL, T_MOD_EQUAL,
        T_AND_EQUAL, T_OR_EQUAL, T_XOR_EQUAL, T_SL_EQUAL, T_SR_EQUAL, T_COALESCE_EQUAL,
    ];
    private const BLANK = [T_WHITESPACE, T_COMMENT, T_DOC_COMMENT];

    /** @var array<string, string> declarations of all cells: kind and name in lower case => their words */
    private static array $declared = [];
    /** @var array<string, string> use statements of all cells, by what they import */
    private static array $imports = [];

    /** @var list<PhpToken> */
    private array $tokens;
    /** @var list<array{int, int}> first and last token of the statements at the top */
    private array $statements = [];
    private string $namespace = '';
    public bool $hasValue = false;

    public function __construct(string $code, private string $name)
    {
        $code = preg_match('/\A(#!.*\n)?\s*<\?/', $code) ? $code : "<?php $code";
        try {
            $this->tokens = PhpToken::tokenize($code, TOKEN_PARSE);
        } catch (ParseError $error) {
            try { // without its last semicolon
                $this->tokens = PhpToken::tokenize("$code\n;", TOKEN_PARSE);
            } catch (ParseError) {
                throw $error;
            }
        }
        $this->split();
    }

    /** The text of the file. */
    public function text(): string
    {
        $this->leaveOutDeclared();
        $this->replaceWords();
        $last = end($this->statements);
        $this->hasValue = $last && $this->isExpression($last);
        if ($this->hasValue) {
            $this->tokens[$last[0]]->text = 'return ' . $this->tokens[$last[0]]->text;
        }
        $this->addImports();
        return implode('', array_map(fn (PhpToken $token) => $token->text, $this->tokens));
    }

    /** What is declared and imported, for the cells that follow. */
    public function remember(): void
    {
        foreach ($this->declarations() as $key => [$first, $last]) {
            if ($this->exists($key)) {
                self::$declared[$key] = $this->words($first, $last);
            }
        }
        self::$imports = array_merge(self::$imports, $this->imports());
    }

    private function split(): void
    {
        $depth = 0;
        $first = null;
        foreach ($this->tokens as $i => $token) {
            if ($token->is(self::BLANK) || $token->is(T_OPEN_TAG)) {
                continue;
            }
            $first ??= $i;
            if ($token->is(['(', '[', '{', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES, T_ATTRIBUTE])) {
                $depth++;
            } elseif ($token->is([')', ']', '}'])) {
                $depth--;
            }
            if ($depth == 0 && ($token->is([';', T_CLOSE_TAG]) || $token->is('}') && $this->isBlock($first))) {
                $this->statements[] = [$first, $i];
                $first = null;
            }
        }
        if ($first !== null) {
            $this->statements[] = [$first, count($this->tokens) - 1];
        }
        $this->keepStatements(fn (PhpToken $first) => !$first->is(';'));
    }

    /** Those whose first token is so. */
    private function keepStatements(callable $is_so): void
    {
        $this->statements = array_values(array_filter($this->statements, fn ($one) => $is_so($this->tokens[$one[0]])));
    }

    /** Whether a statement that begins so ends with a brace. */
    private function isBlock(int $first): bool
    {
        $token = $this->tokens[$first];
        $is_statement = $token->is(self::STATEMENTS) && !$token->is([T_ECHO, T_PRINT, T_RETURN, T_THROW, T_CONST]);
        return $is_statement || $token->is(['{', T_READONLY, T_ENUM]) || $this->isFunction($first);
    }

    /** Whether a function with a name is declared there. */
    private function isFunction(int $first): bool
    {
        $next = $this->after($first);
        $next = $next && $this->tokens[$next]->text === '&' ? $this->after($next) : $next;
        return $this->tokens[$first]->is(T_FUNCTION) && $next && $this->tokens[$next]->is(T_STRING);
    }

    /** The next token that says something. */
    private function after(int $i): ?int
    {
        for ($i++; $i < count($this->tokens); $i++) {
            if (!$this->tokens[$i]->is(self::BLANK)) {
                return $i;
            }
        }
        return null;
    }

    /** @param array{int, int} $statement */
    private function isExpression(array $statement): bool
    {
        [$first, $last] = $statement;
        $token = $this->tokens[$first];
        if ($this->isBlock($first) || $token->is(self::STATEMENTS) || !$this->tokens[$last]->is([';', T_CLOSE_TAG])) {
            return false;
        }
        $next = $this->after($first);
        if ($token->is(T_STATIC) && $next && $this->tokens[$next]->is(T_VARIABLE)) {
            return false;
        }
        if ($token->is(T_STRING) && $next && $this->tokens[$next]->is(':')) {
            return false; // a label
        }
        $depth = 0;
        for ($i = $first; $i <= $last; $i++) {
            $depth += $this->tokens[$i]->is(['(', '[', '{', T_CURLY_OPEN, T_DOLLAR_OPEN_CURLY_BRACES]) ? 1 : 0;
            $depth -= $this->tokens[$i]->is([')', ']', '}']) ? 1 : 0;
            if ($depth == 0 && $this->tokens[$i]->is(self::ASSIGNMENTS)) {
                return false;
            }
        }
        return true;
    }

    /**
     * Functions and classes that are declared at the top, with their first and last token.
     *
     * @return array<string, array{int, int}>
     */
    private function declarations(): array
    {
        $found = [];
        $this->namespace = '';
        foreach ($this->statements as [$first, $last]) {
            if ($this->tokens[$first]->is(T_NAMESPACE)) {
                $next = $this->after($first);
                $has_name = $this->tokens[$next]->is([T_STRING, T_NAME_QUALIFIED]);
                $this->namespace = $has_name ? $this->tokens[$next]->text . '\\' : '';
                continue;
            }
            $kind = $this->isFunction($first) ? 'function' : 'class';
            if ($kind == 'class' && !$this->isBlock($first)) {
                continue;
            }
            for ($i = $first; $i !== null && $i < $last && !$this->tokens[$i]->is(['{', '(']); $i = $this->after($i)) {
                $is_kind = $this->tokens[$i]->is([T_CLASS, T_INTERFACE, T_TRAIT, T_ENUM, T_FUNCTION]);
                $name = $is_kind ? $this->after($i) : null;
                $name = $name && $this->tokens[$name]->text === '&' ? $this->after($name) : $name;
                if ($name && $this->tokens[$name]->is(T_STRING)) {
                    $found[strtolower("$kind $this->namespace{$this->tokens[$name]->text}")] = [$first, $last];
                    break;
                }
            }
        }
        return $found;
    }

    private function exists(string $key): bool
    {
        [$kind, $name] = explode(' ', $key);
        return $kind == 'function' ? function_exists($name)
            : class_exists($name, false) || interface_exists($name, false) || trait_exists($name, false);
    }

    /** The text of tokens without comments, and with one space for any. */
    private function words(int $first, int $last): string
    {
        $tokens = array_slice($this->tokens, $first, $last - $first + 1);
        $words = array_filter($tokens, fn (PhpToken $token) => !$token->is(self::BLANK));
        return implode(' ', array_map(fn (PhpToken $token) => $token->text, $words));
    }

    private function leaveOutDeclared(): void
    {
        foreach ($this->declarations() as $key => [$first, $last]) {
            if (!$this->exists($key)) {
                continue;
            }
            if ((self::$declared[$key] ?? '') !== $this->words($first, $last)) {
                throw new NsboxDeclared($key, $this->name, $this->tokens[$first]->line);
            }
            for ($i = $first; $i <= $last; $i++) {
                $this->tokens[$i]->text = preg_replace('/[^\n]+/', '', $this->tokens[$i]->text);
                $this->tokens[$i]->id = T_WHITESPACE;
            }
        }
        $this->keepStatements(fn (PhpToken $first) => !$first->is(T_WHITESPACE));
    }

    /** exit and die, and __DIR__, which is the working directory. */
    private function replaceWords(): void
    {
        foreach ($this->tokens as $i => $token) {
            if ($token->is(T_EXIT)) {
                $next = $this->after($i);
                $token->text = '\NsboxContext::leave' . ($next && $this->tokens[$next]->is('(') ? '' : '()');
            } elseif ($token->is(T_DIR)) {
                $token->text = var_export(getcwd(), true);
            }
        }
    }

    /** @return array<string, string> */
    private function imports(): array
    {
        $found = [];
        foreach ($this->statements as [$first, $last]) {
            if ($this->tokens[$first]->is(T_USE)) {
                $words = $this->words($first, $last);
                $found[$words] = rtrim($words, " ;") . ';';
            }
        }
        return $found;
    }

    /** Imports of earlier cells, behind what has to come first, but not in a namespace. */
    private function addImports(): void
    {
        $names = function (string $import): array {
            preg_match_all('/(\w+)\s*(?=[,;}])/', $import, $found);
            return array_map('strtolower', $found[1]);
        };
        $own = array_merge([], ...array_map($names, array_values($this->imports())));
        foreach ($this->declarations() as $key => $_) {
            $own[] = explode(' ', $key)[1];
        }
        $text = '';
        foreach (self::$imports as $import) {
            if (!array_intersect($names($import), $own)) {
                $text .= $import;
            }
        }
        $place = 0;
        while (!$this->tokens[$place]->is(T_OPEN_TAG)) {
            $place++;
            if ($place == count($this->tokens)) {
                return;
            }
        }
        foreach ($this->statements as [$first, $last]) {
            if ($this->tokens[$first]->is(T_NAMESPACE)) {
                return;
            }
            if ($this->tokens[$first]->is(T_DECLARE)) {
                $place = $last;
            }
        }
        $before = rtrim($this->tokens[$place]->text);
        $this->tokens[$place]->text = "$before $text" . substr($this->tokens[$place]->text, strlen($before));
    }
}

/** What PHP would end by. */
final class NsboxDeclared extends Error
{
    public function __construct(string $key, string $file, int $line)
    {
        [$kind, $name] = explode(' ', $key);
        $name .= $kind == 'function' ? '()' : '';
        parent::__construct("Cannot redeclare $kind $name: PHP has it from before. Give it another name, or restart "
            . 'the context');
        $this->file = $file;
        $this->line = $line;
    }
}

final class NsboxContext
{
    private const MAX_TEXT = 65536;
    private const MAX_HTML = 262144;
    private const MAX_JSON = 65536;
    private const MAX_IMAGE = 4194304;
    private const MAX_DISPLAYS = 39; // and the result
    private const MAX_ITEMS = 1000; // of an array that is shown
    private const MAX_DEPTH = 20;

    public static string $code = '';
    public static string $name = '';
    public static mixed $value = null;
    public static bool $opened = true;
    private static ?NsboxSource $source = null;
    private static ?int $cell = null;
    private static bool $running = false;
    private static int $pid;
    private static int $values = 0;
    private static int $displays = 0;
    private static ?string $reserve;
    /** @var callable|int the handler of SIGINT */
    private static $handler;
    /** @var resource */
    private static $requests;
    /** @var resource */
    private static $replies;

    public static function start(string $folder): void
    {
        self::$requests = fopen("$folder/requests", 're') ?: exit(1);
        self::$replies = fopen("$folder/replies", 'we') ?: exit(1);
        foreach (["$folder/requests", "$folder/replies"] as $path) {
            unlink($path);
        }
        rmdir($folder);
        stream_set_write_buffer(self::$replies, 0);
        self::$pid = getmypid();
        self::$reserve = str_repeat('x', 262144);
        self::$handler = [self::class, 'interrupt'];
        register_shutdown_function([self::class, 'shutdown']);
        if (self::hasSignals()) {
            pcntl_async_signals(true);
            pcntl_signal(SIGINT, SIG_IGN);
        }
        self::reply('ready');
    }

    private static function hasSignals(): bool
    {
        return function_exists('pcntl_signal');
    }

    // --- a cell ---

    /** Whether there is another cell. */
    public static function next(): bool
    {
        $header = self::readLine();
        if ($header === null) {
            return false;
        }
        if (!preg_match('/\Arun (\d+) (\d+)\z/', $header, $found)) {
            fwrite(STDERR, __FILE__ . ": no request: $header\n");
            exit(1);
        }
        self::$cell = (int) $found[1];
        self::$name = "<cell $found[1]>";
        self::$values = self::$displays = 0;
        self::$source = null;
        self::$code = self::read((int) $found[2]);
        return true;
    }

    /** Makes a file of the cell's code; to be called where what it throws is caught. */
    public static function begin(): void
    {
        if (self::hasSignals()) {
            pcntl_signal(SIGINT, self::$handler, false);
        }
        self::$running = true;
        self::$source = new NsboxSource(self::$code, self::$name);
        self::$code = self::$source->text();
        self::$opened = false;
        stream_wrapper_unregister('file');
        stream_wrapper_register('file', NsboxCell::class);
    }

    /** The cell is over, well, with a value, or by what was thrown. */
    public static function end(?Throwable $error): void
    {
        $parts = [];
        try {
            if (!self::$opened) {
                self::$opened = true;
                stream_wrapper_restore('file');
            }
            $value = self::$value;
            self::$value = null;
            if ($error === null && $value !== null && self::$source->hasValue) {
                $parts = self::represent($value);
            }
            while (ob_get_level() > 0) {
                ob_end_flush();
            }
            self::$running = false;
        } catch (Throwable $another) {
            self::$running = false;
            $error = $another;
        }
        if (getmypid() !== self::$pid) {
            exit($error === null ? 0 : 1);
        }
        if (self::hasSignals()) {
            self::$handler = pcntl_signal_get_handler(SIGINT) ?: [self::class, 'interrupt'];
            pcntl_signal(SIGINT, SIG_IGN);
        }
        self::$source?->remember();
        self::finish($parts, $error);
        self::$code = '';
        gc_collect_cycles();
    }

    /** @param array<string, string> $parts */
    private static function finish(array $parts, ?Throwable $error): void
    {
        if (self::$displays > self::MAX_DISPLAYS) {
            $count = self::$displays - self::MAX_DISPLAYS;
            self::show('display', ['text/plain' => "$count more were displayed, too many for one cell"]);
        }
        $status = 'ok';
        if ($error instanceof NsboxLeave && $error->status === null) {
            $status = 'interrupted';
        } elseif ($error !== null && !($error instanceof NsboxLeave && $error->status === 0)) {
            $status = 'error';
            self::replyError(self::lineOf($error), self::nameOf($error), $error->getMessage(), self::traceOf($error));
        } elseif ($parts) {
            self::show('result', $parts);
        }
        $cell = self::$cell;
        self::$cell = null;
        self::reply("end $cell $status");
    }

    public static function interrupt(): void
    {
        if (getmypid() !== self::$pid) {
            exit(130);
        }
        if (self::$running) {
            throw new NsboxLeave(null);
        }
    }

    /** In the place of exit in cells. */
    public static function leave(string|int $status = 0): never
    {
        if (is_string($status)) {
            echo $status;
            $status = 0;
        }
        throw new NsboxLeave($status);
    }

    /** What ends PHP while a cell runs. */
    public static function shutdown(): void
    {
        self::$reserve = null;
        if (self::$cell === null || getmypid() !== self::$pid) {
            return;
        }
        $error = error_get_last();
        $fatal = $error && $error['type'] & (E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR);
        $name = $fatal ? 'FatalError' : 'exit';
        $message = match (true) {
            (bool) $fatal => $error['message'],
            connection_aborted() === 1 => 'standard output is closed, at which PHP ends',
            default => 'a file that the cell included called exit',
        };
        $line = $fatal && $error['file'] === self::$name ? $error['line'] : 0;
        $place = $fatal ? " in {$error['file']} on line {$error['line']}" : '';
        while (ob_get_level() > 0) {
            ob_end_flush();
        }
        $trace = "$name: $message$place\nThe context has ended with it, and what it had defined is gone.";
        // And no end: it ends with the context, or the next cell would be handed to one that ends.
        self::replyError($line, $name, $message, $trace);
        self::$cell = null;
    }

    // --- errors ---

    /** Whether an error is one of the cell's form, before it ran. */
    private static function isOfSource(Throwable $error): bool
    {
        return $error instanceof NsboxDeclared || $error instanceof ParseError && self::$source === null;
    }

    private static function nameOf(Throwable $error): string
    {
        if ($error instanceof NsboxLeave) {
            return 'exit';
        }
        return $error instanceof NsboxDeclared ? 'Error' : strstr(get_class($error) . "\0", "\0", true);
    }

    private static function lineOf(Throwable $error): int
    {
        if ($error->getFile() === self::$name || self::isOfSource($error)) {
            return $error->getLine();
        }
        foreach ($error->getTrace() as $frame) {
            if (($frame['file'] ?? '') === self::$name) {
                return $frame['line'];
            }
        }
        return preg_match('/\A' . self::$name . '\((\d+)\) : eval/', $error->getFile(), $found) ? (int) $found[1] : 0;
    }

    /** As PHP prints it, without the frames from here. */
    private static function traceOf(Throwable $error): string
    {
        if ($error instanceof NsboxLeave) {
            return "exit: {$error->getMessage()}";
        }
        if (self::isOfSource($error)) {
            return self::nameOf($error) . ": {$error->getMessage()} in " . self::$name . ":{$error->getLine()}";
        }
        $lines = [];
        $number = 0;
        foreach (explode("\n", $error->__toString()) as $line) {
            if (preg_match('/\A#\d+ (.*)\z/s', $line, $found)) {
                foreach ([__FILE__ . '(', '[internal function]: NsboxContext::'] as $own) {
                    if (str_starts_with($found[1], $own)) {
                        continue 2;
                    }
                }
                $line = '#' . $number++ . " $found[1]";
            } else {
                $number = 0;
            }
            $lines[] = $line;
        }
        return implode("\n", $lines);
    }

    private static function replyError(int $line, string $name, string $message, string $trace): void
    {
        $texts = [self::bound($name, 1024), self::bound($message, self::MAX_TEXT), self::bound($trace, self::MAX_TEXT)];
        $lengths = implode(' ', array_map('strlen', $texts));
        self::reply(sprintf('error %d %d %s', self::$cell, $line, $lengths), implode('', $texts));
    }

    // --- values ---

    public static function display(mixed $value, ?string $mime): void
    {
        if (self::$cell === null) {
            throw new Error('Nsbox::display(): no cell runs');
        }
        if ($mime !== null && !preg_match('#\A[a-z]+/[A-Za-z0-9][A-Za-z0-9.+-]*\z#', $mime)) {
            throw new ValueError("Nsbox::display(): $mime is no MIME type");
        }
        $parts = $mime === null ? self::represent($value) : [$mime => (string) $value];
        $running = self::$running;
        self::$running = false;
        if (++self::$displays <= self::MAX_DISPLAYS) {
            self::show('display', $parts);
        }
        self::$running = $running;
    }

    /** @return array<string, string> */
    private static function represent(mixed $value): array
    {
        $parts = ['text/plain' => self::export($value)];
        $method = is_object($value) && method_exists($value, 'toHtml') ? new ReflectionMethod($value, 'toHtml') : null;
        if ($method && $method->isPublic() && $method->getNumberOfRequiredParameters() == 0) {
            $parts['text/html'] = (string) $value->toHtml();
        }
        if ($value instanceof GdImage) {
            ob_start();
            imagepng($value);
            $parts['image/png'] = ob_get_clean();
        }
        if (self::isJson($value)) {
            $flags = JSON_PRESERVE_ZERO_FRACTION | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES;
            $json = json_encode($value, $flags);
            if ($json !== false) {
                $parts['application/json'] = $json;
            }
        }
        return $parts;
    }

    /** Whether JSON says all of a value. */
    private static function isJson(mixed $value, int $depth = 0): bool
    {
        if (is_int($value)) {
            return abs($value) <= 1 << 53;
        }
        if (is_float($value)) {
            return is_finite($value);
        }
        if (is_string($value)) {
            return preg_match('//u', $value) === 1;
        }
        if (is_object($value) && get_class($value) == 'stdClass') {
            $value = (array) $value;
        } elseif (is_array($value)) {
            foreach (array_is_list($value) ? [] : $value as $key => $_) {
                if (!is_string($key)) {
                    return false;
                }
            }
        }
        if (!is_array($value) || $depth > 100) {
            return $value === null || is_bool($value);
        }
        foreach ($value as $key => $item) {
            if (is_string($key) && !preg_match('//u', $key) || !self::isJson($item, $depth + 1)) {
                return false;
            }
        }
        return true;
    }

    /** A value in the notation of PHP; of large ones, head and tail. */
    private static function export(mixed $value, int $depth = 0, array $above = []): string
    {
        if (is_string($value)) {
            return self::exportString($value);
        }
        if ($value === null || is_scalar($value)) {
            return $value === null ? 'null' : var_export($value, true);
        }
        if (is_resource($value) || gettype($value) == 'resource (closed)') {
            return 'resource(' . get_resource_id($value) . ') of type (' . get_resource_type($value) . ')';
        }
        if ($value instanceof UnitEnum) {
            return get_class($value) . "::$value->name";
        }
        if (is_object($value)) {
            $name = str_replace("\0", '', strstr(get_class($value) . "\0", "\0", true)) . ' #' . spl_object_id($value);
            if (in_array($value, $above, true) || $depth > self::MAX_DEPTH) {
                return "$name {…}";
            }
            $above[] = $value;
            $items = self::properties($value);
            return $items ? "$name " . self::exportItems($items, '{', $depth, $above) : "$name {}";
        }
        if ($depth > self::MAX_DEPTH) {
            return '[…]';
        }
        return self::exportItems($value, '[', $depth, $above);
    }

    private static function exportString(string $value): string
    {
        $left = strlen($value) - 2 * self::MAX_TEXT;
        if ($left > 0) {
            $value = self::whole(substr($value, 0, self::MAX_TEXT)) . "\n… $left bytes left out …\n"
                . self::whole(substr($value, -self::MAX_TEXT));
        }
        if (preg_match('/[\x00-\x08\x0b-\x1f\x7f]/', $value) || !preg_match('//u', $value)) {
            return '"' . preg_replace_callback('/[\x00-\x1f\x7f-\xff"$\\\\]/', fn ($found) => match ($found[0]) {
                "\n" => '\n', "\t" => '\t', "\r" => '\r', "\e" => '\e', '"', '$', '\\' => "\\$found[0]",
                default => sprintf('\x%02x', ord($found[0])),
            }, $value) . '"';
        }
        return var_export($value, true);
    }

    /** @return array<string, mixed> */
    private static function properties(object $value): array
    {
        if (method_exists($value, '__debugInfo')) {
            return $value->__debugInfo() ?? [];
        }
        $found = [];
        foreach ((array) $value as $key => $item) {
            $found[preg_replace('/\A\0.*\0/s', '', (string) $key)] = $item;
        }
        return $found;
    }

    private static function exportItems(array $items, string $left, int $depth, array $above): string
    {
        [$right, $arrow] = $left == '{' ? ['}', ': '] : [']', ' => '];
        $is_list = $left == '[' && array_is_list($items);
        $one = function ($key) use ($items, $is_list, $left, $arrow, $depth, $above) {
            $name = $left == '{' ? (string) $key : self::export($key);
            return ($is_list ? '' : "$name$arrow") . self::export($items[$key], $depth + 1, $above);
        };
        $keys = array_keys($items);
        $gap = count($keys) - 2 * self::MAX_ITEMS;
        $texts = array_map($one, $gap > 0 ? array_slice($keys, 0, self::MAX_ITEMS) : $keys);
        if ($gap > 0) {
            $texts = [...$texts, "… $gap left out …", ...array_map($one, array_slice($keys, -self::MAX_ITEMS))];
        }
        $line = $left . implode(', ', $texts) . $right;
        if (strlen($line) <= 100 && !str_contains($line, "\n")) {
            return $line;
        }
        $indent = str_repeat('    ', $depth + 1);
        return "$left\n$indent" . implode(",\n$indent", $texts) . "\n" . str_repeat('    ', $depth) . $right;
    }

    // --- replies ---

    /** @param array<string, string> $parts */
    private static function show(string $kind, array $parts): void
    {
        self::$values++;
        foreach ($parts as $mime => $data) {
            $is_text = str_starts_with($mime, 'text/');
            $limit = match (true) {
                $mime == 'text/html' => self::MAX_HTML,
                $is_text => self::MAX_TEXT,
                str_starts_with($mime, 'image/') => self::MAX_IMAGE,
                default => self::MAX_JSON,
            };
            $data = $is_text || $mime == 'image/svg+xml' ? self::bound($data, $is_text ? $limit : PHP_INT_MAX) : $data;
            $header = sprintf('%d %d %s %s %d', self::$cell, self::$values, $kind, $mime, strlen($data));
            if (!$is_text && strlen($data) > $limit) {
                self::reply("cut $header");
            } else {
                self::reply("part $header", $data);
            }
        }
    }

    /** UTF-8, and where it is too long head and tail, and between them a line about the rest. */
    private static function bound(string $text, int $limit): string
    {
        $text = preg_match('//u', $text) ? $text : self::escaped($text);
        if (strlen($text) <= $limit) {
            return $text;
        }
        $head = self::whole(substr($text, 0, intdiv($limit, 2)));
        $tail = self::whole(substr($text, -intdiv($limit, 2)));
        $left = strlen($text) - strlen($head) - strlen($tail);
        return "$head\n… $left bytes left out …\n$tail";
    }

    /** Bytes without what is half a character at their begin and end. */
    private static function whole(string $bytes): string
    {
        $half = '[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2}';
        return preg_replace("/\A[\x80-\xbf]{1,3}|(?:$half)\z/", '', $bytes);
    }

    /** What is no UTF-8 as \xNN. */
    private static function escaped(string $text): string
    {
        $valid = '[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}'
            . '|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}'
            . '|\xf4[\x80-\x8f][\x80-\xbf]{2}';
        return preg_replace_callback("/($valid)|(.)/s", function (array $found): string {
            return isset($found[2]) ? sprintf('\x%02x', ord($found[2])) : $found[1];
        }, $text);
    }

    private static function reply(string $header, string $body = ''): void
    {
        $data = "$header\n$body";
        while ($data !== '') {
            $written = fwrite(self::$replies, $data);
            $data = substr($data, (int) $written);
        }
    }

    private static function readLine(): ?string
    {
        $line = '';
        while (!str_ends_with($line, "\n")) {
            $part = fgets(self::$requests);
            if ($part === false && feof(self::$requests)) {
                return null;
            }
            $line .= $part;
        }
        return substr($line, 0, -1);
    }

    private static function read(int $length): string
    {
        $data = '';
        while (strlen($data) < $length) {
            $data .= fread(self::$requests, $length - strlen($data));
            if (feof(self::$requests)) {
                exit(1);
            }
        }
        return $data;
    }
}

if (!extension_loaded('tokenizer')) {
    fwrite(STDERR, "php: a context needs PHP's extension tokenizer\n");
    exit(1);
}
NsboxContext::start(end($argv));
$argv = $_SERVER['argv'] = ['php'];
$argc = $_SERVER['argc'] = 1;
while (NsboxContext::next()) {
    try {
        try {
            NsboxContext::begin();
            NsboxContext::$value = include NsboxContext::$name;
            NsboxContext::end(null);
        } catch (Throwable $nsbox) {
            NsboxContext::end($nsbox);
        }
    } catch (NsboxLeave $nsbox) { // interrupted once more on the way
        NsboxContext::end($nsbox);
    }
    unset($nsbox);
}
