// Every module of Node's own library can be loaded.
const failed = [];
const { builtinModules } = require('module');
for (const name of builtinModules) {
  try { require(name); } catch (error) { failed.push(`${name}: ${error.message}`); }
}
console.log(builtinModules.length > 50, failed);
const crypto = require('crypto');
console.log(crypto.createHash('sha256').update('abc').digest('hex').slice(0, 16));
console.log(crypto.scryptSync('pw', 'salt', 16).toString('hex'));
