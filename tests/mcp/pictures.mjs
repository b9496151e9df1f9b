// SPDX-License-Identifier: MIT
// PNG pictures, decoded: what is on them.

import assert from 'node:assert/strict';
import { inflateSync } from 'node:zlib';

const channelsOf = { 0: 1, 2: 3, 4: 2, 6: 4 };

export class Picture {
	// `data`: base64. 8 bits a channel, without a palette and not interlaced, as matplotlib and Pillow write them.
	constructor(data) {
		const bytes = Buffer.from(data, 'base64');
		assert.equal(bytes.subarray(0, 8).toString('latin1'), '\x89PNG\r\n\x1a\n');
		const parts = [];
		for (let at = 8; at < bytes.length;) {
			const length = bytes.readUInt32BE(at), kind = bytes.toString('latin1', at + 4, at + 8), body = bytes.subarray(at + 8, at + 8 + length);
			if (kind === 'IHDR') {
				[this.width, this.height] = [body.readUInt32BE(0), body.readUInt32BE(4)];
				this.channels = channelsOf[body[9]];
				assert.deepEqual([body[8], body[12]], [8, 0], 'depth and interlacing');
				assert.ok(this.channels, 'a palette');
			} else if (kind === 'IDAT') {
				parts.push(body);
			}
			at += 12 + length;
		}
		this.pixels = this.unfilter(inflateSync(Buffer.concat(parts)));
	}

	unfilter(data) {
		const step = this.channels, length = this.width * step, rows = Buffer.alloc(length * this.height);
		assert.equal(data.length, (length + 1) * this.height);
		for (let y = 0; y < this.height; y++) {
			const filter = data[y * (length + 1)], row = data.subarray(y * (length + 1) + 1), at = y * length;
			for (let x = 0; x < length; x++) {
				const left = x >= step ? rows[at + x - step] : 0, up = y ? rows[at + x - length] : 0, corner = y && x >= step ? rows[at + x - length - step] : 0;
				const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
				rows[at + x] = row[x] + [0, left, up, (left + up) >> 1, a <= b && a <= c ? left : b <= c ? up : corner][filter];
			}
		}
		return rows;
	}

	// How many pixels have about this colour, on white.
	near([red, green, blue], distance = 24) {
		let count = 0;
		for (let at = 0; at < this.pixels.length; at += this.channels) {
			const [r, g, b] = this.channels > 2 ? [0, 1, 2].map(i => this.pixels[at + i]) : Array(3).fill(this.pixels[at]);
			count += Math.abs(r - red) <= distance && Math.abs(g - green) <= distance && Math.abs(b - blue) <= distance;
		}
		return count;
	}

	// How many different colours there are.
	colours() {
		const seen = new Set();
		for (let at = 0; at < this.pixels.length; at += this.channels)
			seen.add(this.pixels.toString('latin1', at, at + Math.min(this.channels, 3)));
		return seen.size;
	}
}
