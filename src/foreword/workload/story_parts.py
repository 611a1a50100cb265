"""The words and sentences that the built-in stories are made of.

Every sentence is a ``str.format`` pattern. ``{a}`` and ``{b}`` are two different people, ``{item}`` is a plural thing,
``{place}`` and ``{day}`` set the scene, ``{n}`` is the number that the sentence brings in, ``{t}`` the running total
before it and ``{r}`` the total after it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Steps:
    """One kind of arithmetic step: what is told, and how it is worked out."""

    told: tuple[str, ...]
    worked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Language:
    """Everything a story needs in one language."""

    people: tuple[str, ...]
    items: tuple[str, ...]
    places: tuple[str, ...]
    days: tuple[str, ...]
    openings: tuple[str, ...]
    colour: tuple[str, ...]
    add: Steps
    take: Steps
    times: Steps
    share: Steps
    questions: tuple[str, ...]
    gap: str
    scenes: tuple[str, ...]


ENGLISH = Language(
    people=tuple(
        "Alice Amir Anna Asha Ben Bianca Carlos Chen Clara Dana David Diego Elena Emma Eric Fatima Felix Grace Hana Hugo "
        "Ines Ivan Jack Jamal Jane Jonas Julia Kai Karim Kate Laila Leo Lena Liam Lucia Marco Maria Max Mei Mila "
        "Nadia Nina Noah Nora Oscar Omar Paul Petra Priya Quinn Rosa Ruth Sam Sara Sofia Tom Uma Vera Victor Yuki".split()
    ),
    items=tuple(
        "apples pears oranges marbles stickers pencils notebooks stamps coins shells buttons beads cookies muffins cards "
        "books tickets balloons candles flowers seeds tomatoes carrots eggs bottles cups plates lamps chairs boxes bags "
        "ribbons postcards badges photos pebbles peaches lemons puzzles magnets".split()
    ),
    places=tuple(
        "market school library garden station bakery museum workshop kitchen office harbor village playground farm "
        "theater gym hotel bookshop stadium park warehouse laboratory clinic cafe".split()
    ),
    days=("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    openings=(
        "{a} has {n} {item}.",
        "On {day}, {a} counted {n} {item} at the {place}.",
        "{a} started the week with {n} {item}.",
        "There were {n} {item} on the shelf when {a} came to the {place} on {day}.",
        "{a} collects {item} and keeps {n} of them in a box.",
        "Early on {day} morning {a} carried {n} {item} to the {place}.",
        "The {place} ordered {n} {item}, and {a} was asked to look after them.",
        "{a} and {b} run a small stand near the {place}, and on {day} they set out {n} {item}.",
        "Before the fair {a} packed {n} {item}.",
        "A box with {n} {item} stood in front of the {place}, so {a} took it inside.",
    ),
    colour=(
        "The weather was mild and {b} came along to help.",
        "It was a slow day at the {place}, with only a few visitors before noon.",
        "{b} wrote every number down in a blue notebook so that nothing would be lost.",
        "Nobody else was there yet, and the doors of the {place} were still closed.",
        "They had planned this for weeks and did not want to make a mistake.",
        "{b} thought that was a lot.",
        "A friend of {b} had asked for an exact list by {day} evening.",
        "Outside it started to rain, which kept most people at home.",
        "After a short break with tea and bread they went on.",
        "Some of the {item} were new, some were old, but all of them were counted.",
        "Last year it had been fewer, as {b} remembered well.",
        "The manager of the {place} watched from the window and smiled.",
    ),
    add=Steps(
        (
            "{b} gives {a} {n} more.",
            "Then {a} finds {n} {item} at the {place}.",
            "On {day} another {n} {item} arrive.",
            "{a} buys {n} more from {b}.",
            "A parcel with {n} {item} comes from the {place}.",
            "Later, {b} brings {n} {item} that had been left behind.",
        ),
        (
            "That makes {t}+{n}={r} {item}.",
            "With {n} more there are {t} + {n} = {r}.",
            "{t} and {n} are {r} together.",
            "After this {a} has {t} + {n} = {r} {item}.",
        ),
    ),
    take=Steps(
        (
            "{a} gives {n} of them to {b}.",
            "Unfortunately {n} of them are broken and must be thrown away.",
            "{b} borrows {n} {item} for the {place}.",
            "By the evening {n} have been sold.",
            "{a} loses {n} on the way home.",
            "On {day} the {place} takes {n} of the {item}.",
        ),
        (
            "Then {t}-{n}={r} {item} are left.",
            "Taking away {n} leaves {t} - {n} = {r}.",
            "{t} minus {n} is {r}.",
            "So {a} keeps {t} - {n} = {r} {item}.",
        ),
    ),
    times=Steps(
        (
            "By {day} the number has grown to {n} times as many.",
            "{a} wants {n} times that amount and gets it from the {place}.",
            "{b} then makes {n} such sets, so the number is multiplied by {n}.",
            "Thanks to {b} the collection becomes {n} times as large.",
        ),
        (
            "{n} times as many is {t}*{n}={r}.",
            "That gives {t} * {n} = {r} {item}.",
            "Multiply by {n}: {t} * {n} = {r}.",
        ),
    ),
    share=Steps(
        (
            "They are shared equally among {n} people, and {a} keeps one share.",
            "{a} splits them into {n} equal piles and takes one pile.",
            "{b} divides everything evenly over {n} rooms; only one room counts for {a}.",
            "Each of {n} children gets the same number, and we follow what one child has.",
        ),
        (
            "One share is {t}/{n}={r} {item}.",
            "Divide by {n}: {t} / {n} = {r}.",
            "{t} shared by {n} is {r} each.",
        ),
    ),
    questions=(
        "How many {item} are there in the end?",
        "How many {item} does {a} have now?",
        "What is the final number of {item}?",
        "How many is that?",
        "With how many {item} does {a} end the day?",
    ),
    gap=" ",
    scenes=(
        "{a} buys {x} {item} for ${y} each at the {place} and pays with ${big}. How much change does {a} get?\n"
        "The {item} cost {x}*{y}=${xy}.\nThe change is {big}-{xy}=${change}.\n#### {change}",
        "A train to the {place} travels {y} miles an hour for {x} hours, then another {z} miles. How far does it go?\n"
        "In {x} hours it goes {x} * {y} = {xy} miles.\nAltogether that is {xy} + {z} = {xyz} miles.\n#### {xyz}",
        "The garden of the {place} is {x} feet wide and {y} feet long. {a} puts a fence around it. "
        "How long is the fence?\nWidth and length make {x}+{y}={sum} feet.\nThe fence is 2*{sum}={twice} feet long.\n#### {twice}",
        "{a} saves ${x} a week. {b} saves ${z} more than that. How much do they save together in {y} weeks?\n"
        "{b} saves {x}+{z}=${xz} a week.\nTogether they save {x}+{xz}=${both} a week.\n"
        "In {y} weeks that is {both}*{y}=${total}.\n#### {total}",
        "{a} reads {x} pages every day for {y} days and {z} pages on {day}. The book from the {place} has {big} pages. "
        "How many pages are left?\n{x} pages on {y} days are {x} * {y} = {xy} pages.\n"
        "With the pages of {day} it is {xy} + {z} = {xyz}.\nSo {big} - {xyz} = {left} pages are left.\n#### {left}",
        "{x} plus {y}?\n#### {sum}",
        "{a} works {x} hours at the {place} for ${y} an hour. What does {a} earn?\n{x} * {y} = {xy}\n#### {xy}",
        "{a} is {x} years old and {b} is {z} years older. How old are they together?\n"
        "{b} is {x}+{z}={xz}.\nTogether they are {x}+{xz}={both}.\n#### {both}",
        "There are {x} rows with {y} seats in the {place}, and {z} people sit on the stairs. "
        "How many people can watch the show on {day}?\nThe rows hold {x}*{y}={xy} people.\n"
        "With the stairs it is {xy}+{z}={xyz} people.\n#### {xyz}",
        "What is {x} times {y}?\n{x} * {y} = {xy}\n#### {xy}",
        "{a} has {x} {item} and {b} has {y}. How many do they have?\n{x} + {y} = {sum}\n#### {sum}",
    ),
)

CHINESE = Language(
    people=tuple(
        "小明 小红 小华 小丽 小强 小芳 小刚 小军 小燕 小玲 王伟 李娜 张敏 刘洋 陈静 杨帆 赵磊 黄蓉 周杰 吴迪 "
        "徐慧 孙悦 马超 朱琳 胡斌 郭靖 何欢 林峰 高远 罗兰 郑爽 梁晨 谢安 宋佳 唐宁 许诺 邓林 韩雪 冯涛 曹颖".split()
    ),
    items=tuple(
        "个苹果 个橘子 个梨 颗糖 支铅笔 本书 张邮票 枚硬币 个贝壳 粒纽扣 块饼干 张卡片 张票 个气球 支蜡烛 朵花 "
        "个鸡蛋 个瓶子 只杯子 个盘子 把椅子 个箱子 张照片 个玩具 条丝带".split()
    ),
    places=tuple(
        "市场 学校 图书馆 花园 车站 面包店 博物馆 工厂 厨房 办公室 码头 村子 操场 农场 剧院 宾馆 书店 体育馆 公园 医院".split()
    ),
    days=("星期一", "星期二", "星期三", "星期四", "星期五", "星期六", "星期天"),
    openings=(
        "{a}有{n}{item}。",
        "{day}，{a}在{place}数出{n}{item}。",
        "一开始，{a}准备了{n}{item}。",
        "{a}来到{place}的时候，架子上有{n}{item}。",
        "{place}订购了{n}{item}，由{a}负责保管。",
        "{a}和{b}在{place}旁边摆摊，{day}摆出了{n}{item}。",
    ),
    colour=(
        "天气很好，{b}也来帮忙。",
        "这天{place}里的人不多。",
        "{b}把每个数字都记在本子上，免得忘记。",
        "门还没有开，大家在{place}门口等着。",
        "{b}觉得已经很多了。",
        "为了这件事，他们准备了好几个星期，不想出错。",
        "外面下起了雨，很多人都留在家里。",
    ),
    add=Steps(
        (
            "{b}又给了{a}{n}{item}。",
            "后来{a}在{place}找到{n}{item}。",
            "{day}又送来{n}{item}。",
            "{a}从{b}那里买了{n}{item}。",
        ),
        ("一共有{t}+{n}={r}{item}。", "加上{n}，{t}+{n}={r}。", "{t}与{n}的和是{r}。"),
    ),
    take=Steps(
        (
            "{a}给了{b}{n}{item}。",
            "其中{n}{item}坏了，只好扔掉。",
            "到了晚上，卖出了{n}{item}。",
            "{day}，{place}拿走了{n}{item}。",
        ),
        ("还剩{t}-{n}={r}{item}。", "减去{n}，{t}-{n}={r}。", "所以{a}留下{t}-{n}={r}{item}。"),
    ),
    times=Steps(
        (
            "到{day}，数量变成原来的{n}倍。",
            "{a}需要这个数量的{n}倍，都从{place}买来了。",
            "在{b}的帮助下，数量增加到{n}倍。",
        ),
        ("{n}倍就是{t}×{n}={r}。", "乘以{n}，得到{t}×{n}={r}{item}。"),
    ),
    share=Steps(
        (
            "大家把它们平均分成{n}份，{a}拿一份。",
            "这些东西平均分给{n}个人，只看其中一个人。",
            "{b}把它们平均放进{n}个房间，{a}只用一个房间的。",
        ),
        ("每份是{t}÷{n}={r}{item}。", "除以{n}，{t}÷{n}={r}。"),
    ),
    questions=("最后有多少{item}？", "{a}现在有多少{item}？", "结果是多少？", "请问{a}最后还有几{item}？"),
    gap="",
    scenes=(
        "{a}在{place}买了{x}{item}，每{item}{y}元，付了{big}元，应找回多少元？\n"
        "总价是{x}×{y}={xy}元。\n找回{big}-{xy}={change}元。\n#### {change}",
        "一列火车每小时行{y}千米，行了{x}小时，又行了{z}千米，一共行了多少千米？\n"
        "{x}小时行{x}×{y}={xy}千米。\n一共行{xy}+{z}={xyz}千米。\n#### {xyz}",
        "{place}的花坛长{y}米，宽{x}米，周长是多少米？\n长与宽的和是{x}+{y}={sum}米。\n周长是2×{sum}={twice}米。\n#### {twice}",
        "{a}每周存{x}元，{b}每周比{a}多存{z}元，{y}周一共存多少元？\n{b}每周存{x}+{z}={xz}元。\n"
        "两人每周存{x}+{xz}={both}元。\n{y}周存{both}×{y}={total}元。\n#### {total}",
        "{x}加{y}等于多少？\n#### {sum}",
        "{a}在{place}工作{x}小时，每小时{y}元，一共得到多少元？\n{x}×{y}={xy}\n#### {xy}",
        "{a}今年{x}岁，{b}比{a}大{z}岁，两人一共多少岁？\n{b}今年{x}+{z}={xz}岁。\n一共{x}+{xz}={both}岁。\n#### {both}",
        "{place}有{x}排座位，每排{y}个，还有{z}人站着，{day}一共有多少人？\n座位上有{x}×{y}={xy}人。\n"
        "一共{xy}+{z}={xyz}人。\n#### {xyz}",
        "{a}有{x}{item}，{b}有{y}{item}，一共有多少？\n{x}+{y}={sum}\n#### {sum}",
    ),
)
