// The world `skill` of wit/skill.wit: `run` takes JSON text and gives JSON text.
//
// `{"url": "https://a.example/x?q=1#top"}` gives the parts of the URL. With `"check": true` it is
// asked for too, which needs a grant.

const no = (code, message) => ({ payload: { code, message } });

function parse(args) {
  try {
    return new URL(JSON.parse(args).url);
  } catch {
    throw no('bad-url', 'url must be an absolute URL');
  }
}

async function status(url) {
  try {
    return (await fetch(url, { method: 'HEAD' })).status;
  } catch (error) {
    throw no('unreachable', `${url.origin} cannot be asked: ${error.message}`);
  }
}

export async function run(args) {
  const url = parse(args);
  const parts = {
    origin: url.origin,
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    fragment: url.hash.slice(1),
  };
  if (JSON.parse(args).check) parts.status = await status(url);
  return JSON.stringify(parts);
}
