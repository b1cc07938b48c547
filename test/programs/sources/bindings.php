<?php
// What PHP's own allocator does not serve: its extensions, all of which are bound past a preloaded
// malloc (RTLD_DEEPBIND), strings of libc, regular expressions, a document, a table of functions.
ini_set('memory_limit', '-1');
$words = [];
for ($i = 0; $i < 20000; $i++) {
    $words[] = str_repeat(chr(97 + $i % 26), 1 + $i % 300) . $i;
}
usort($words, fn($a, $b) => strlen($a) <=> strlen($b) ?: strcmp($a, $b));
echo crc32(implode(',', $words)), "\n";
$found = 0;
foreach ($words as $word) {
    $found += preg_match('/^(a+|b+)\d*7$/', $word);
}
echo $found, "\n";
putenv('BINDINGS=' . str_repeat('x', 5000));
echo strlen(getenv('BINDINGS')), "\n";
for ($i = 0; $i < 200; $i++) {
    setlocale(LC_ALL, $i % 2 ? 'C' : 'C.UTF-8');
    $text = iconv('UTF-8', 'UTF-16LE', str_repeat("\u{e4}\u{f6}", $i));
}
echo crc32($text), "\n";
echo crc32(json_encode(array_chunk($words, 100))), "\n";
echo crc32(gzcompress(implode("\n", $words), 9)), "\n";
echo (new DateTime('2026-02-03', new DateTimeZone('Europe/Vienna')))->format('c'), "\n";
print_r(array_slice(get_loaded_extensions(), 0, 3));
