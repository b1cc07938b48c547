# A film as y4m, on standard output: squares move over a slope of grey.
use strict;
use warnings;

my ($width, $height, $frames) = @ARGV;
binmode STDOUT;
print "YUV4MPEG2 W$width H$height F25:1 Ip A1:1 C420jpeg\n";
my $slope = join '', map { chr($_ % 256) } 0 .. $width + 255;
my $grey = chr(128) x ($width * $height / 2);
for my $frame (0 .. $frames - 1) {
  my @lines = map { substr($slope, ($_ + 3 * $frame) % 256, $width) } 0 .. $height - 1;
  for my $square (0 .. 7) {
    my $left = (53 * $square + 2 * $frame * ($square % 3 + 1)) % ($width - 16);
    my $top = (37 * $square + $frame * ($square + 1)) % ($height - 16);
    substr($lines[$top + $_], $left, 16) = chr(32 * $square + 16) x 16 for 0 .. 15;
  }
  print "FRAME\n", @lines, $grey;
}
