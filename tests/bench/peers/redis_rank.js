// Drives the npm package redis-rank: prints the rate of each call, per second, as JSON. Arguments: socket, key, members, seconds.
import Redis from 'ioredis';
import { Leaderboard } from 'redis-rank';

const [socket, key, members, seconds] = process.argv.slice(2);
const client = new Redis({ path: socket });
const board = new Leaderboard(client, key, { sortPolicy: 'high-to-low', updatePolicy: 'replace' });
const below = (limit) => Math.floor(Math.random() * limit);
const name = () => `member-${String(below(Number(members))).padStart(9, '0')}`;

const rate = async (once) => {
  const began = performance.now();
  const end = began + Number(seconds) * 1000;
  let count = 0;
  const worker = async () => {
    while (performance.now() < end) {
      await once();
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: 64 }, worker));
  return (count / (performance.now() - began)) * 1000;
};

const figures = {
  around: await rate(() => board.around(name(), 5)),
  top: await rate(() => board.top(100)),
  submit: await rate(() => board.updateOne(name(), below(1e9))),
};
console.log(JSON.stringify(figures));
client.disconnect();
