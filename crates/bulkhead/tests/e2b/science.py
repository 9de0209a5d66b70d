"""Tables, figures and pictures through E2B's code interpreter, with the libraries that make them."""

import base64
import datetime

from e2b_code_interpreter import Sandbox
from e2b_code_interpreter.charts import (
    BarChart,
    BoxAndWhiskerChart,
    ChartType,
    LineChart,
    PieChart,
    ScaleType,
    ScatterChart,
    SuperChart,
)

room = Sandbox.create(timeout=240)
START = "import datetime\nimport matplotlib.pyplot as plt\nimport numpy as np\nimport pandas as pd\n"


def shown(code):
    ran = room.run_code(code, timeout=120)
    assert ran.error is None, ran.error.traceback
    return ran.results


shown(START)

# Tables.
[table] = shown("pd.DataFrame({'a': [1, 2], 'f': [1.5, None], 'at': pd.date_range('2024-01-01', periods=2)})")
assert table.data == {"a": [1, 2], "f": [1.5, None], "at": ["2024-01-01T00:00:00", "2024-01-02T00:00:00"]}
assert "<table" in table.html and "2024-01-01" in table.text and table.is_main_result

# Figures: shown, left open, returned, shown twice.
[figure, value] = shown("plt.plot([1, 2])\nplt.show()\n'value'")
assert base64.b64decode(figure.png).startswith(b"\x89PNG") and not figure.is_main_result
assert figure.text.startswith("<Figure size") and not figure.extra and value.text == "value"
[text, figure] = shown("plt.plot([1, 2])\n'left open'")
assert figure.png and text.text == "left open"
[figure] = shown("fig, ax = plt.subplots()\nax.plot([1])\nfig")
assert figure.png and figure.is_main_result
assert shown("plt.plot([1]); plt.savefig('f.png'); plt.close()") == []
assert shown("plt.subplots(); plt.show()")[0].chart is None

# What is drawn in them.
[result] = shown("""
plt.bar(['A', 'B'], [100, 200], label='Sold')
plt.xlabel('Author'); plt.ylabel('Books (k)'); plt.title('Sales')
plt.show()
""")
chart = result.chart
assert isinstance(chart, BarChart) and (chart.title, chart.x_label, chart.y_unit) == ("Sales", "Author", "k")
assert [(it.label, it.group, it.value) for it in chart.elements] == [("A", "Sold", 100), ("B", "Sold", 200)]
[result] = shown("plt.barh(['x', 'y'], [1, 2]); plt.xlabel('size'); plt.ylabel('name'); plt.show()")
assert [(it.label, it.value) for it in result.chart.elements] == [("x", 1), ("y", 2)]
assert (result.chart.x_label, result.chart.y_label) == ("name", "size")

[result] = shown("""
days = [datetime.date(2023, 9, 1) + datetime.timedelta(days=n) for n in range(4)]
plt.plot(days, np.sin(np.arange(4)), label='sin')
plt.plot(days, np.cos(np.arange(4)))
plt.axhline(0.5); plt.grid(True); plt.xlabel('Time (s)')
plt.show()
""")
chart = result.chart
assert isinstance(chart, LineChart) and chart.x_unit == "s" and chart.title is None
assert (chart.x_scale, chart.y_scale) == (ScaleType.DATETIME, ScaleType.LINEAR)
assert [it.label for it in chart.elements] == ["sin", "Line 1"]
assert datetime.date.fromisoformat(chart.elements[0].points[1][0]) == datetime.date(2023, 9, 2)
assert datetime.datetime.fromisoformat(chart.x_ticks[0]) and len(chart.elements[0].points) == 4
[result] = shown("plt.plot([1, 2], ['A', 'B']); plt.show()")
assert result.chart.y_scale == ScaleType.CATEGORICAL
[result] = shown("plt.plot([1, 2], [10, 1e9]); plt.yscale('log'); plt.show()")
assert result.chart.y_scale == ScaleType.LOG

[result] = shown("plt.scatter([1, 2], [3, 4], label='one'); plt.scatter([5], [6]); plt.show()")
chart = result.chart
assert isinstance(chart, ScatterChart) and [it.points for it in chart.elements] == [[(1, 3), (2, 4)], [(5, 6)]]

[result] = shown("plt.pie([90, 10], labels=['No', 'Yes'], autopct='%1.1f%%', startangle=90); plt.show()")
chart = result.chart
assert isinstance(chart, PieChart)
assert [(it.label, it.angle, it.radius) for it in chart.elements] == [("No", 324, 1), ("Yes", 36, 1)]

for style in ("", ", patch_artist=True", ", vert=False"):
    [result] = shown(f"""
data = {{'A': [85, 90, 78, 92, 88], 'B': [95, 89, 76, 91, 84, 87]}}
plt.boxplot(list(data.values()), tick_labels=list(data){style})
plt.show()
""")
    chart = result.chart
    assert isinstance(chart, BoxAndWhiskerChart), (style, chart and chart.type)
    assert [it.label for it in chart.elements] == ["A", "B"]
    assert [it.outliers for it in chart.elements] == [[], [76]]
    assert [(it.min, it.first_quartile, it.median, it.third_quartile, it.max) for it in chart.elements] == [
        (78, 85, 88, 90, 92),
        (84, 84.75, 88, 90.5, 95),
    ]

[result] = shown("fig, (a, b) = plt.subplots(1, 2); fig.suptitle('Two'); a.plot([1]); b.scatter([1], [1]); plt.show()")
chart = result.chart
assert isinstance(chart, SuperChart) and chart.title == "Two"
assert [it.type for it in chart.elements] == [ChartType.LINE, ChartType.SCATTER]
[result] = shown("fig, ax = plt.subplots(); ax.add_artist(plt.Circle((0, 0), 1)); plt.title('C'); plt.show()")
assert result.chart.type == ChartType.UNKNOWN and result.chart.title == "C"

# Pictures.
code = "from PIL import Image\nimage = Image.new('RGB', (4, 4))\n"
for end in ("image.show()", "image.save('test.png')", "image"):
    [picture] = shown(code + end)
    assert base64.b64decode(picture.png).startswith(b"\x89PNG"), end

room.kill()
print("all well")
