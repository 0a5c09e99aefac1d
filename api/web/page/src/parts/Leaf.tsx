// The sign of Laurel.

export function Leaf() {
  return (
    <svg class="leaf" viewBox="0 0 32 32" aria-hidden="true">
      <path d="M16 29C6 25 4 14 9 4c1 6 3 8 7 12 4-4 6-6 7-12 5 10 3 21-7 25z" />
    </svg>
  );
}
