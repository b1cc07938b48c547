// Worker threads, large JSON and buffers that come and go.
const { createHash } = require('node:crypto');
const { gzipSync, gunzipSync } = require('node:zlib');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

const digest = (data) => createHash('sha256').update(data).digest('hex').slice(0, 16);

function churn(seed) {
  const kept = [];
  const hash = createHash('sha256');
  let state = seed;
  for (let i = 0; i < 4000; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    const buffer = Buffer.allocUnsafe((state >>> 8) % 60000 + 1).fill(state & 255);
    kept[i % 50] = buffer;
    if (i % 40 === 0) hash.update(Buffer.concat(kept));
  }
  const rows = Array.from({ length: 30000 }, (_, i) => ({ id: i, name: `row ${i * seed}`, tags: [i % 7, i % 11] }));
  const text = JSON.stringify(rows);
  const back = JSON.parse(text);
  const packed = gzipSync(text, { level: 3 });
  const same = gunzipSync(packed).toString() === JSON.stringify(back);
  return `${seed}: ${hash.digest('hex').slice(0, 16)} ${digest(text)} ${same}`;
}

if (isMainThread) {
  console.log(churn(1));
  const answers = [2, 3, 4].map((seed) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.on('message', resolve);
    worker.on('error', reject);
  }));
  Promise.all(answers).then((lines) => console.log(lines.join('\n')));
} else {
  parentPort.postMessage(churn(workerData));
}
