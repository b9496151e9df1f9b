// SPDX-License-Identifier: MIT
// What people do in notebooks, through the client of the SDK: load a table, clean it, plot, fit, report. Several cells each in
// a context, and what comes back is looked into: values, tables, charts as data, and pictures, which are decoded.
//
// NSBOX_TEST_KEEP   a folder for the pictures, for who wants to look at them

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { text } from './helpers.mjs';
import { Picture } from './pictures.mjs';
import { Sandbox, connectTools } from './sandboxes.mjs';

const packages = ['numpy', 'pandas', 'matplotlib', 'seaborn', 'scipy', 'scikit-learn', 'plotly', 'pillow'];

// tests/mcp/run runs all files twice where root calls it. These packages are installed once.
let skip = process.env.HOME === '/nonexistent' && 'as root only, where there is one', server, box;

const patient = { timeout: 130_000 }; // where all else runs at the same time
const blue = [31, 119, 180], orange = [255, 127, 14], green = [44, 160, 44], red = [214, 39, 40];

// A table with what tables have: blanks, what is there twice, what is missing, numbers as text, a wrong date.
function sales() {
	const lines = ['date, region ,product,units,price'];
	for (let day = 0; day < 120; day++) {
		const date = new Date(Date.UTC(2024, 0, 1 + day)).toISOString().slice(0, 10);
		const region = ['North', 'South', ' East', 'West '][day % 4], product = ['tea', 'coffee', 'cocoa'][day % 3];
		lines.push(`${date},${region},${product},${day % 17 === 5 ? '' : 10 + (day * 7) % 23},${(2 + day % 5 / 2).toFixed(2)} €`);
	}
	lines.push(lines[10], lines[11], '2024-13-45,North,tea,5,2.00 €');
	return lines.join('\n') + '\n';
}

if (!skip) {
	server = await connectTools({ args: ['--max-memory', '4g', '--max-timeout', '300'] });
	after(server.close);
	const made = await server.call('sandbox_initialize', { language: 'python', dependencies: packages, memory_limit: '3g', timeout: 120 }, { timeout: 280_000 });
	if (made.isError && !process.env.CI && /^pip could not install/.test(text(made)))
		skip = text(made);
	else
		assert.ok(!made.isError, text(made));
	box = made.isError ? null : new Sandbox(server.tool, made.structuredContent.sandbox_id);
}

describe('notebooks', { skip, concurrency: 2 }, () => {
	// Cells of a context, as a function of the code.
	const notebook = (context, body) => async () => {
		const call = async code => {
			const { content, structuredContent: result } = await server.call('sandbox_exec', { sandbox_id: box.id, context, code, timeout: 120 }, patient);
			assert.ok(result?.status, JSON.stringify(content).slice(0, 2000));
			// Images of files that the code has made, here or in another context, are not counted.
			const pictures = result.results.filter(one => one.image !== undefined).map(one => content[one.image].data);
			return { ...result, pictures, value: result.results.find(one => one.kind === 'result') };
		};
		const ok = async code => {
			const result = await call(code);
			assert.equal(result.status, 'ok', `${code}\n${result.error?.traceback}\n${result.stderr}`);
			// What matplotlib says where the machine is busy.
			assert.equal(result.stderr.replace('Matplotlib is building the font cache; this may take a moment.\n', ''), '', code);
			return result;
		};
		await body(ok, call);
	};
	// The one picture of a cell, decoded, and the chart that goes with it.
	const plot = (name, cell, ...colours) => {
		assert.equal(cell.pictures.length, 1, `${name}: ${cell.pictures.length} pictures`);
		if (process.env.NSBOX_TEST_KEEP)
			writeFileSync(`${process.env.NSBOX_TEST_KEEP}/${name}.png`, cell.pictures[0], 'base64');
		const picture = new Picture(cell.pictures[0]);
		assert.ok(picture.width > 250 && picture.height > 200 && picture.colours() > 16, `${name}: ${picture.width} × ${picture.height}, ${picture.colours()} colours`);
		for (const colour of colours)
			assert.ok(picture.near(colour) > 40, `${name}: ${picture.near(colour)} pixels of ${colour}`);
		return cell.results.find(one => one.image !== undefined).chart;
	};
	// What several notebooks begin with, here each in its own context once.
	const clean = `
import pandas as pd
df = pd.read_csv('sales.csv', skipinitialspace=True)
df.columns = df.columns.str.strip()
df['region'] = df['region'].str.strip()
df['price'] = df['price'].str.replace(' €', '').astype(float)
df['date'] = pd.to_datetime(df['date'], errors='coerce')
df = df.drop_duplicates().dropna(subset=['date'])
df['units'] = df['units'].fillna(df['units'].median())
df['revenue'] = df['units'] * df['price']`;

	before(() => box?.write('sales.csv', sales()));

	describe('tables', { concurrency: 1 }, () => {
		test('1: load and clean a CSV file', notebook('tables', async ok => {
			await ok('import pandas as pd\nimport matplotlib.pyplot as plt');
			const raw = await ok("df = pd.read_csv('sales.csv')\ndf.head(3)");
			assert.match(raw.value.html, /<table[\s\S]*2024-01-01/);
			assert.deepEqual(raw.value.json.data.length, 3);
			assert.equal((await ok('int(df.isna().sum().sum())')).value.json, 7);
			await ok(clean);
			const shape = await ok('df.shape');
			assert.deepEqual(shape.value.json, [120, 6]);
			const types = await ok('df.dtypes.astype(str).to_dict()');
			assert.match(types.value.json.date, /^datetime64/);
			assert.equal((await ok('sorted(df.region.unique())')).value.text, "['East', 'North', 'South', 'West']");
			const cell = await ok("df.units.plot.hist(bins=8, title='Units a day', color='tab:blue')");
			const chart = plot('01 histogram', cell, blue);
			assert.deepEqual([chart.kind, chart.title, chart.series[0].bars.length], ['histogram', 'Units a day', 8]);
			assert.equal(chart.series[0].bars.reduce((sum, bar) => sum + bar.value, 0), 120);
		}));

		test('2: group, sum, and bars of it', notebook('tables', async ok => {
			const table = await ok("totals = df.groupby('region')['revenue'].sum().sort_values(ascending=False).round(2)\ntotals");
			assert.equal(table.value.json.data.length, 4);
			const cell = await ok("ax = totals.plot(kind='bar', color='tab:green', title='Revenue by region')\nax.set_ylabel('EUR')\nplt.tight_layout()\nplt.show()");
			const chart = plot('02 bars', cell, green);
			assert.deepEqual([chart.kind, chart.y.label, chart.x.scale], ['bar', 'EUR', 'categorical']);
			assert.deepEqual(chart.series[0].bars.map(bar => bar.label), table.value.json.index);
			assert.deepEqual(chart.series[0].bars.map(bar => bar.value), table.value.json.data);
		}));

		test('3: a pivot table, and a heat map of it', notebook('tables', async ok => {
			const pivot = await ok("pivot = df.pivot_table(index='region', columns='product', values='units', aggfunc='mean').round(1)\npivot");
			assert.deepEqual([pivot.value.json.columns, pivot.value.json.index], [['cocoa', 'coffee', 'tea'], ['East', 'North', 'South', 'West']]);
			const cell = await ok("import seaborn as sns\nsns.heatmap(pivot, annot=True, fmt='.1f', cmap='viridis').set_title('Units')");
			const chart = plot('03 heat map', cell);
			assert.deepEqual([chart.kind, chart.title, chart.series[0].values], ['heatmap', 'Units', pivot.value.json.data]);
		}));

		test('4: a time series, by month and with a moving mean', notebook('tables', async ok => {
			const months = await ok("monthly = df.set_index('date')['revenue'].resample('MS').sum()\nmonthly");
			assert.equal(months.value.json.index[0], '2024-01-01T00:00:00');
			const cell = await ok(`
daily = df.set_index('date')['revenue']
fig, ax = plt.subplots(figsize=(8, 4))
ax.plot(daily.index, daily, color='tab:blue', alpha=.5, label='day')
ax.plot(daily.index, daily.rolling(14).mean(), color='tab:red', label='14 days')
ax.set(title='Revenue', xlabel='date', ylabel='EUR')
fig.autofmt_xdate()
ax.legend();`);
			const chart = plot('04 time series', cell, red);
			assert.deepEqual([chart.kind, chart.x.scale, chart.series.map(one => one.label)], ['line', 'datetime', ['day', '14 days']]);
			assert.equal(chart.series[0].points[0][0], '2024-01-01T00:00:00');
			assert.equal(chart.series[1].points[0][1], null);
		}));

		test('5: a report in text, with tables', notebook('tables', async ok => {
			const cell = await ok(`
best = totals.idxmax()
print(f"# Sales\\n\\n{len(df)} days, best region: {best} with {totals.max():.2f} EUR\\n")
print(df.groupby('product')['units'].agg(['mean', 'max']).round(2).to_string())
open('report.md', 'w').write('done')
display(totals.to_frame())
{'best': best, 'days': len(df), 'total': round(float(totals.sum()), 2)}`);
			assert.match(cell.stdout, /^# Sales\n\n120 days, best region: \w+ with \d+\.\d\d EUR\n[\s\S]*tea/);
			assert.equal(cell.value.json.days, 120);
			assert.equal(cell.results[0].kind, 'display');
			assert.match(cell.results[0].html, /<table/);
			assert.equal(await box.read('report.md'), 'done');
		}));
	});

	describe('numbers', { concurrency: 1 }, () => {
		test('6: a line is fitted', notebook('numbers', async ok => {
			await ok('import numpy as np\nimport matplotlib.pyplot as plt\nrng = np.random.default_rng(1)');
			const fit = await ok('x = np.linspace(0, 10, 50)\ny = 3 * x + 2 + rng.normal(0, .5, 50)\nslope, intercept = np.polyfit(x, y, 1)\nround(slope, 1), round(intercept)');
			assert.match(fit.value.text, /3\.0/);
			const cell = await ok("plt.scatter(x, y, s=12, label='data', color='tab:orange')\nplt.plot(x, slope * x + intercept, label=f'{slope:.2f} x + {intercept:.2f}', color='tab:blue')\nplt.legend(); plt.title('A fit')");
			const chart = plot('06 fit', cell, orange, blue);
			assert.deepEqual([chart.kind, chart.series.map(one => one.kind).sort()], ['mixed', ['line', 'scatter']]);
			assert.equal(chart.series[0].points.length, 50);
		}));

		test('7: a curve is fitted, with scipy', notebook('numbers', async ok => {
			const fit = await ok(`
from scipy.optimize import curve_fit
def decay(t, a, k):
    return a * np.exp(-k * t)
t = np.linspace(0, 5, 40)
seen = decay(t, 4, 1.3) + rng.normal(0, .02, 40)
(a, k), covariance = curve_fit(decay, t, seen)
{'a': round(float(a), 1), 'k': round(float(k), 1)}`);
			assert.deepEqual(fit.value.json, { a: 4, k: 1.3 });
			const cell = await ok("fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))\nleft.plot(t, seen, '.', color='tab:green'); left.plot(t, decay(t, a, k), color='tab:red'); left.set_title('Decay')\nright.plot(t, seen - decay(t, a, k)); right.set_title('Residuals'); right.axhline(0, ls='--')\nfig.suptitle('curve_fit')");
			const chart = plot('07 curve', cell, green, red);
			assert.deepEqual([chart.kind, chart.title, chart.axes.map(one => one.title)], ['figure', 'curve_fit', ['Decay', 'Residuals']]);
		}));

		test('8: statistics, and a distribution', notebook('numbers', async ok => {
			const cell = await ok("from scipy import stats\na, b = rng.normal(5, 1, 400), rng.normal(5.5, 1, 400)\nplt.hist([a, b], bins=12, label=['a', 'b'])\nplt.legend(); plt.xlabel('value')\nbool(stats.ttest_ind(a, b).pvalue < 0.001)");
			assert.equal(cell.value.json, true);
			const chart = plot('08 distributions', cell, blue, orange);
			assert.deepEqual([chart.kind, chart.series.map(one => one.label), chart.x.label], ['histogram', ['a', 'b'], 'value']);
			assert.equal(chart.series[1].bars.reduce((sum, bar) => sum + bar.value, 0), 400);
		}));

		test('9: a transform, with logarithmic axes', notebook('numbers', async ok => {
			await ok('rate, n = 1000, 4096\ntime = np.arange(n) / rate\nsignal = np.sin(2 * np.pi * 50 * time) + .5 * np.sin(2 * np.pi * 120 * time) + rng.normal(0, .1, n)');
			const peaks = await ok('spectrum = np.abs(np.fft.rfft(signal)) / n\nfrequency = np.fft.rfftfreq(n, 1 / rate)\nsorted(round(float(f)) for f in frequency[np.argsort(spectrum)[-40:]] if 45 < f < 55 or 115 < f < 125)[0]');
			assert.ok(peaks.value.json >= 45 && peaks.value.json <= 50);
			const cell = await ok("plt.loglog(frequency[1:], spectrum[1:], color='tab:red')\nplt.xlabel('Hz'); plt.ylabel('amplitude'); plt.grid(True, which='both', alpha=.3)");
			const chart = plot('09 spectrum', cell, red);
			assert.deepEqual([chart.kind, chart.x.scale, chart.y.scale, chart.series[0].points.length, chart.series[0].omitted], ['line', 'log', 'log', 200, 1848]);
		}));

		test('10: a field of numbers as an image', notebook('numbers', async ok => {
			const cell = await ok("grid = np.linspace(-3, 3, 200)\nX, Y = np.meshgrid(grid, grid)\nZ = np.sin(X ** 2 + Y ** 2)\nplt.imshow(Z, extent=(-3, 3, -3, 3), cmap='coolwarm')\nplt.colorbar(label='z'); plt.title('Rings')");
			const chart = plot('10 image', cell);
			assert.deepEqual([chart.kind, chart.title, chart.series[0].values.length, chart.series[0].omitted], ['heatmap', 'Rings', 64, 200 * 200 - 64 * 64]);
			assert.match((await ok('Z')).value.text, /^array\(\[\[/);
		}));
	});

	describe('models and pictures', { concurrency: 1 }, () => {
		test('11: a classifier is trained, and its confusion shown', notebook('models', async ok => {
			await ok('import numpy as np, matplotlib.pyplot as plt\nfrom sklearn.datasets import load_iris\nfrom sklearn.ensemble import RandomForestClassifier\nfrom sklearn.model_selection import train_test_split\nfrom sklearn.metrics import ConfusionMatrixDisplay, accuracy_score');
			const model = await ok('data = load_iris(as_frame=True)\ntrain_x, test_x, train_y, test_y = train_test_split(data.data, data.target, random_state=0)\nmodel = RandomForestClassifier(20, random_state=0).fit(train_x, train_y)\nmodel');
			assert.match(model.value.text, /RandomForestClassifier/);
			assert.ok((await ok('accuracy_score(test_y, model.predict(test_x))')).value.json > 0.85);
			const cell = await ok('ConfusionMatrixDisplay.from_estimator(model, test_x, test_y, display_labels=data.target_names)');
			const chart = plot('11 confusion', cell);
			assert.deepEqual([chart.kind, chart.x.label, chart.series[0].values.flat().reduce((a, b) => a + b)], ['heatmap', 'Predicted label', 38]);
		}));

		test('12: importances, as horizontal bars', notebook('models', async ok => {
			const cell = await ok("import pandas as pd\nweights = pd.Series(model.feature_importances_, data.feature_names).sort_values()\nweights.plot.barh(color='tab:green', title='Importance')\nweights.round(3).to_dict()");
			assert.equal(Object.keys(cell.value.json).length, 4);
			const chart = plot('12 importances', cell, green);
			assert.deepEqual([chart.series[0].orientation, chart.series[0].bars.map(bar => bar.label)], ['horizontal', Object.keys(cell.value.json)]);
		}));

		test('13: clusters, in colours', notebook('models', async ok => {
			await ok('import os\nos.environ["LOKY_MAX_CPU_COUNT"] = "1"  # it looks for cores in /sys\nfrom sklearn.cluster import KMeans\nfrom sklearn.decomposition import PCA\nflat = PCA(2).fit_transform(data.data)\ngroups = KMeans(3, n_init=5, random_state=0).fit_predict(flat)');
			const cell = await ok("for group, colour in enumerate(['tab:blue', 'tab:orange', 'tab:green']):\n    part = flat[groups == group]\n    plt.scatter(part[:, 0], part[:, 1], c=colour, label=f'cluster {group}')\nplt.legend(); plt.title('Clusters')");
			const chart = plot('13 clusters', cell, blue, orange, green);
			assert.deepEqual([chart.kind, chart.series.map(one => one.label)], ['scatter', ['cluster 0', 'cluster 1', 'cluster 2']]);
			assert.equal(chart.series.reduce((sum, one) => sum + one.points.length, 0), 150);
		}));

		test('14: a picture is made, changed and measured', notebook('models', async ok => {
			await ok("from PIL import Image, ImageDraw, ImageFilter\nimage = Image.new('RGB', (400, 300), 'white')\ndraw = ImageDraw.Draw(image)\ndraw.ellipse((50, 50, 250, 250), fill=(214, 39, 40))\ndraw.rectangle((250, 100, 380, 200), fill=(31, 119, 180))\nimage.save('shapes.png')");
			const cell = await ok("image.filter(ImageFilter.GaussianBlur(2))");
			plot('14 picture', cell, red, blue);
			assert.match(cell.value.text, /PIL.*400x300/);
			const counts = await ok("pixels = np.asarray(Image.open('shapes.png'))\nint((pixels[:, :, 0] > 200).sum() - (pixels.min(axis=2) > 200).sum())");
			assert.ok(Math.abs(counts.value.json - Math.PI * 100 ** 2) < 500);
		}));

		test('15: shares, as a pie', notebook('models', async ok => {
			const cell = await ok("shares = data.target.value_counts()\nplt.pie([50, 30, 20], labels=['a', 'b', 'c'], autopct='%.0f%%', explode=(.1, 0, 0))\nplt.title('Shares')\nplt.show()");
			const chart = plot('15 pie', cell, blue, orange, green);
			assert.deepEqual(chart.series[0].slices.map(one => [one.label, one.percent]), [['a', 50], ['b', 30], ['c', 20]]);
		}));
	});

	describe('what is made for screens, and what goes wrong', { concurrency: 1 }, () => {
		test('16: plotly: bars in groups', notebook('screens', async ok => {
			await ok(`${clean}\nimport plotly.express as px`);
			const cell = await ok("px.bar(df.groupby(['region', 'product'], as_index=False)['revenue'].sum(), x='region', y='revenue', color='product', barmode='group', title='By region')");
			const chart = plot('16 plotly bars', cell, [99, 110, 250], [239, 85, 59]);
			assert.deepEqual([chart.kind, chart.title, chart.barmode, chart.series.map(one => one.label)], ['bar', 'By region', 'group', ['cocoa', 'coffee', 'tea']]);
			assert.equal(cell.value.plotly.data.length, 3);
			assert.match(cell.value.text, /drawn by matplotlib/);
		}));

		test('17: plotly: lines over time, by show()', notebook('screens', async ok => {
			const cell = await ok("fig = px.line(df, x='date', y='revenue', color='product', title='Days')\nfig.show()");
			const chart = plot('17 plotly lines', cell, [99, 110, 250], [239, 85, 59], [0, 204, 150]);
			assert.deepEqual([chart.x.scale, chart.series.length, cell.results[0].kind], ['datetime', 3, 'display']);
		}));

		test('18: seaborn: boxes of categories', notebook('screens', async ok => {
			const cell = await ok("import seaborn as sns, matplotlib.pyplot as plt\nsns.set_theme(style='whitegrid')\nsns.boxplot(data=df, x='region', y='units', hue='region', order=['North', 'South', 'East', 'West'])\nplt.title('Units by region')");
			const chart = plot('18 boxes', cell);
			assert.equal(chart.title, 'Units by region');
			const boxes = chart.series.flatMap(one => one.boxes);
			assert.deepEqual(boxes.map(one => one.label).sort(), ['East', 'North', 'South', 'West']);
			const north = await ok("float(df[df.region == 'North'].units.median())");
			assert.equal(boxes.find(one => one.label === 'North').median, north.value.json);
		}));

		test('19: an error in a cell, and on with what there was', notebook('screens', async (ok, call) => {
			const wrong = await call("plt.plot([1, 2, 3])\ndf['no such column']");
			assert.deepEqual([wrong.status, wrong.error.name, wrong.error.line], ['error', 'KeyError', 2]);
			assert.match(wrong.error.traceback, /<cell \d+>", line 2/);
			assert.equal(wrong.pictures.length, 1);
			plot('19 before an error', wrong, [76, 114, 176]); // seaborn's blue
			const cell = await ok("with plt.style.context('default'):\n    fig, ax = plt.subplots()\n    ax.stackplot([1, 2, 3], [1, 2, 3], [2, 2, 2], labels=['u', 'v'])\n    ax.legend()\nlen(df)");
			plot('19 afterwards', cell, blue);
			assert.equal(cell.value.json, 120);
		}));

		test('20: four plots in one, saved and shown', notebook('screens', async ok => {
			const cell = await ok(`
with plt.style.context('default'):
    fig, axes = plt.subplots(2, 2, figsize=(10, 7))
    df.groupby('product')['units'].sum().plot.bar(ax=axes[0, 0], color='tab:blue', rot=0, title='Units')
    df['units'].plot.hist(ax=axes[0, 1], color='tab:orange', title='Distribution')
    axes[1, 0].plot(df['date'], df['revenue'].cumsum(), color='tab:green'); axes[1, 0].set_title('Sum')
    axes[1, 1].scatter(df['units'], df['revenue'], c='tab:red', s=10); axes[1, 1].set_title('Units and revenue')
    fig.suptitle('Dashboard'); fig.tight_layout()
    fig.savefig('dashboard.png', dpi=50)`);
			const chart = plot('20 dashboard', cell, blue, orange, green, red);
			assert.deepEqual([chart.title, chart.axes.map(one => [one.kind, one.title])],
				['Dashboard', [['bar', 'Units'], ['histogram', 'Distribution'], ['line', 'Sum'], ['scatter', 'Units and revenue']]]);
			const saved = new Picture(await box.read('dashboard.png', { encoding: 'base64' }));
			assert.deepEqual([saved.width, saved.height], [500, 350]);
		}));
	});
});
