# Lines of words that repeat, but in no order.
BEGIN {
  seed = 1
  for (i = 0; i < count; i++) {
    line = ""
    for (j = 0; j < 8; j++) {
      seed = seed * 16807 % 2147483647
      line = line " w" seed % 5000
    }
    print line
  }
}
