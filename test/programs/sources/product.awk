# The product of two numbers of so many `bits`, as a table of what each pair of inputs gives.
function digits(number, count,  text) {
  for (; count > 0; count--) {
    text = number % 2 text
    number = int(number / 2)
  }
  return text
}
BEGIN {
  printf ".i %d\n.o %d\n", 2 * bits, 2 * bits
  for (a = 0; a < 2 ^ bits; a++) {
    for (b = 0; b < 2 ^ bits; b++) {
      print digits(a, bits) digits(b, bits), digits(a * b, 2 * bits)
    }
  }
  print ".e"
}
