import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** Threads that come and go, memory outside the Java heap, and compression in native code. */
public final class Crowd {
  static final ConcurrentHashMap<Long, Long> seen = new ConcurrentHashMap<>();

  static long work(int seed) throws Exception {
    CRC32 sum = new CRC32();
    long state = seed;
    for (int round = 0; round < 40; round++) {
      ByteBuffer direct = ByteBuffer.allocateDirect(2000 + round * 700 + seed);
      while (direct.remaining() >= 8) {
        state = state * 6364136223846793005L + 1442695040888963407L;
        direct.putLong(state >>> (round % 40));
      }
      byte[] plain = new byte[direct.position()];
      direct.flip();
      direct.get(plain);
      Deflater deflater = new Deflater(1 + round % 9);
      deflater.setInput(plain);
      deflater.finish();
      byte[] packed = new byte[plain.length + 1000];
      int size = deflater.deflate(packed);
      deflater.end();
      Inflater inflater = new Inflater();
      inflater.setInput(packed, 0, size);
      byte[] back = new byte[plain.length];
      inflater.inflate(back);
      inflater.end();
      sum.update(back);
      seen.merge(state & 1023, 1L, Long::sum);
    }
    return sum.getValue();
  }

  public static void main(String[] arguments) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(8);
    List<Future<Long>> results = new ArrayList<>();
    for (int i = 0; i < 40; i++) {
      int seed = i;
      Callable<Long> task = () -> work(seed);
      results.add(pool.submit(task));
    }
    for (Future<Long> result : results) System.out.println(Long.toHexString(result.get()));
    pool.shutdown();
    for (int i = 0; i < 500; i++) {
      int seed = i;
      Thread thread = new Thread(() -> seen.merge((long) seed % 1024, 1L, Long::sum));
      thread.start();
      thread.join();
    }
    System.out.println(new TreeMap<>(seen).hashCode());
  }
}
