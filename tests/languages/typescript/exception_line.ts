interface Settings { name?: string }

function inner(settings: Settings): number {
  if (!settings.name) throw new TypeError('name is missing');
  return settings.name.length;
}
console.log('before');
inner({});
