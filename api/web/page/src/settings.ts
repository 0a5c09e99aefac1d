// The settings of the server that the page knows: the server writes them into its head.

function setting(name: string): string | undefined {
  return document.querySelector<HTMLMetaElement>(`meta[name="laurel:${name}"]`)?.content;
}

export const settings = {
  /** True if the server has GraphiQL. */
  graphiql: setting('graphiql') !== 'off',
  /** True if the server answers for its health at this address. */
  health: setting('health') !== 'off',
  /** True if pages of other origins may show lists. */
  embed: setting('embed') !== 'off',
  /** The hosts of pictures. */
  imageHosts: (setting('image-hosts') ?? '').split(' ').filter(Boolean),
};

/** True if the page may load a picture. */
export function mayLoad(address: string | null | undefined): address is string {
  if (!address || !URL.canParse(address)) return false;
  const { host, protocol } = new URL(address);
  return /^https?:$/.test(protocol) && settings.imageHosts.includes(host);
}
