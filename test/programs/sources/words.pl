# Hashes, regular expressions, closures, string growth and forked children that report through pipes.
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);

my $seed = 12345;
sub draw { $seed = ($seed * 1103515245 + 12345) % 2147483648; return int($seed / 65536) % $_[0]; }

my @syllables = qw(ba ke li mo nu pa ri so tu ve wa xi yo za);
my $text = join ' ', map { join '', map { $syllables[draw(14)] } 0 .. draw(4) } 1 .. 150_000;

my (%count, %after);
my $last = '';
while ($text =~ /(\w+)/g) {
  $count{$1}++;
  push @{$after{$last}}, $1 if length($last) > 6;
  $last = $1;
}
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
printf "%d words, %s\n", scalar(@top), join ',', map { "$_=$count{$_}" } @top[0 .. 9];
printf "%d followers, %s\n", scalar(keys %after),
  md5_hex(join '|', map { "$_:" . join '+', @{$after{$_}} } sort keys %after);

(my $swapped = $text) =~ s/(\w)(\w)(\w*?)(\w)\b/$4$2$3$1/g;
print md5_hex($swapped), "\n";
delete @count{@top[0 .. $#top / 2]};
my $grown = '';
$grown .= chr(65 + $_ % 26) x ($_ % 300) for 1 .. 20_000;
print length($grown), ' ', md5_hex($grown), "\n";
my @closures = map { my $i = $_; sub { return $i * $_[0] } } 1 .. 20_000;
my $sum = 0;
$sum += $_->(3) for @closures;
print "$sum\n";

for my $child (1 .. 20) {
  my $process = open(my $pipe, '-|') // die "fork: $!";
  if ($process == 0) {
    my %own = map { $_ => "$_-$child" x ($child % 7 + 1) } 1 .. 3000;
    delete @own{grep { $_ % $child == 0 } keys %own};
    print join(',', scalar(keys %own), md5_hex(join '', map { $own{$_} } sort keys %own)), "\n";
    exit $child % 3;
  }
  my $line = <$pipe>;
  close $pipe;
  printf "child %d left with %d: %s", $child, $? >> 8, $line;
}
