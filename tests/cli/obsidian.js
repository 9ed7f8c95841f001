/*
 * A stand-in for the part of Obsidian that the plugin uses, for a page in a browser.
 *
 * The test gives `readFiles()` (path to text) and `requestUrl` as `askServer(request)`. What the plugin opened is in
 * `desk.opened`. An element is made as Obsidian makes it: `text` is text.
 */
'use strict';

Object.assign(HTMLElement.prototype, {
  createEl(tag, options = {}) {
    const el = document.createElement(tag);
    if (options.cls) el.className = options.cls;
    if (options.text !== undefined) el.textContent = options.text;
    for (const name of ['type', 'value', 'href']) if (options[name] !== undefined) el[name] = options[name];
    this.append(el);
    return el;
  },
  createDiv(options) {
    return this.createEl('div', options);
  },
  setText(text) {
    this.textContent = text;
  },
  addClass(name) {
    this.classList.add(name);
  },
  empty() {
    this.replaceChildren();
  },
});

class Component {
  ended = [];
  register(end) {
    this.ended.push(end);
  }
  registerEvent(off) {
    this.register(off);
  }
  registerInterval(id) {
    this.register(() => window.clearInterval(id));
    return id;
  }
  registerDomEvent(el, name, call) {
    el.addEventListener(name, call);
  }
  unload() {
    for (const end of this.ended) end();
  }
}

class Plugin extends Component {
  constructor(app) {
    super();
    this.app = app;
  }
  addStatusBarItem() {
    return document.body.createDiv({ cls: 'status-bar' });
  }
  addRibbonIcon(icon, title, call) {
    document.body.createEl('button', { text: title, cls: 'ribbon' }).addEventListener('click', call);
  }
  addCommand(command) {
    desk.commands[command.id] = command;
  }
  addSettingTab(tab) {
    desk.tab = tab;
  }
  registerView(type, made) {
    desk.views[type] = made;
  }
  async loadData() {
    return JSON.parse(desk.data);
  }
  async saveData(data) {
    desk.data = JSON.stringify(data, null, 2);
  }
}

class SuggestModal {
  constructor(app) {
    this.app = app;
    this.limit = 100;
    this.modalEl = document.createElement('div');
    this.inputEl = this.modalEl.createEl('input', { cls: 'prompt' });
    this.resultContainerEl = this.modalEl.createDiv({ cls: 'results' });
    this.found = [];
    this.place = 0;
  }
  setPlaceholder(text) {
    this.inputEl.placeholder = text;
  }
  setInstructions(listed) {
    this.modalEl.createDiv({ text: listed.map(each => `${each.command} ${each.purpose}`).join(' ') });
  }
  open() {
    document.body.append(this.modalEl);
    this.inputEl.addEventListener('input', () => this.update());
    this.inputEl.addEventListener('keydown', event => this.pressed(event));
    this.inputEl.focus();
    this.update();
  }
  async update() {
    this.found = (await this.getSuggestions(this.inputEl.value)).slice(0, this.limit);
    this.place = 0;
    this.resultContainerEl.empty();
    if (!this.found.length) this.resultContainerEl.createDiv({ cls: 'none', text: this.emptyStateText });
    for (const each of this.found) this.renderSuggestion(each, this.resultContainerEl.createDiv({ cls: 'item' }));
  }
  pressed(event) {
    if (event.key === 'ArrowDown') this.place++;
    if (event.key !== 'Enter' || !this.found.length) return;
    this.modalEl.remove();
    this.onChooseSuggestion(this.found[this.place], event);
  }
}

class ItemView extends Component {
  constructor(leaf) {
    super();
    this.leaf = leaf;
    this.app = app;
    this.contentEl = document.body.createDiv({ cls: 'pane' });
  }
}

class MarkdownView extends ItemView {
  constructor(leaf, file, text) {
    super(leaf);
    this.file = file;
    this.inputEl = this.contentEl.createEl('textarea', { value: text });
    this.inputEl.selectionStart = this.inputEl.selectionEnd = 0;
    this.inputEl.addEventListener('input', () => desk.tell('editor-change'));
    const inputEl = this.inputEl;
    this.editor = {
      getValue: () => inputEl.value,
      getCursor: () => inputEl.selectionStart,
      posToOffset: place => place,
    };
  }
}

class PluginSettingTab {
  constructor(app) {
    this.app = app;
    this.containerEl = document.body.createDiv({ cls: 'settings' });
  }
}

class Setting {
  constructor(containerEl) {
    this.nameEl = containerEl.createEl('label');
    this.descEl = containerEl.createDiv();
    this.controlEl = containerEl.createDiv();
  }
  setName(text) {
    this.nameEl.setText(text);
    return this;
  }
  setDesc(text) {
    this.descEl.setText(text);
    return this;
  }
}

class Notice {
  constructor(text) {
    document.body.createDiv({ cls: 'notice', text });
  }
}

class Leaf {
  async setViewState({ type }) {
    this.type = type;
    this.view = desk.views[type](this);
    await this.view.onOpen();
  }
  async openFile(file, state) {
    if (desk.editing) desk.editing.contentEl.remove();
    desk.editing = new MarkdownView(this, file, (await window.readFiles())[file.path]);
    desk.opened.push([file.path, state?.eState?.line ?? 0]);
    desk.tell('file-open');
  }
}

const desk = {
  commands: {},
  views: {},
  leaves: [],
  opened: [],
  heard: [],
  data: 'null',
  editing: null,
  tell(name) {
    for (const [wanted, call] of this.heard) if (wanted === name) call();
  },
};

const app = {
  workspace: {
    on(name, call) {
      desk.heard.push([name, call]);
      return () => {
        desk.heard = desk.heard.filter(each => each[1] !== call);
      };
    },
    getLeavesOfType: type => desk.leaves.filter(leaf => leaf.type === type),
    getRightLeaf() {
      desk.leaves.push(new Leaf());
      return desk.leaves.at(-1);
    },
    revealLeaf: async () => {},
    getLeaf: () => new Leaf(),
    getActiveFile: () => desk.editing?.file ?? null,
    getActiveViewOfType: type => (desk.editing instanceof type ? desk.editing : null),
    onLayoutReady: call => call(),
  },
  vault: {
    getFileByPath: path => (desk.paths.includes(path) ? { path, extension: 'md', basename: path.split('/').at(-1).slice(0, -3) } : null),
    cachedRead: async file => (await window.readFiles())[file.path],
  },
  loadLocalStorage: key => JSON.parse(window.localStorage.getItem(key)),
  saveLocalStorage: (key, value) =>
    value === null ? window.localStorage.removeItem(key) : window.localStorage.setItem(key, JSON.stringify(value)),
};

const obsidian = {
  Plugin,
  SuggestModal,
  ItemView,
  MarkdownView,
  PluginSettingTab,
  Setting,
  Notice,
  Keymap: { isModEvent: event => Boolean(event.ctrlKey) },
  debounce(call, time) {
    let id = 0;
    const later = () => {
      window.clearTimeout(id);
      id = window.setTimeout(call, time);
      return later;
    };
    later.cancel = () => window.clearTimeout(id);
    return later;
  },
  setTooltip(el, text) {
    el.title = text;
  },
  normalizePath: path => path.normalize('NFC'),
  /** As Obsidian's: rejected if nothing answers, and no error for a status. */
  async requestUrl(request) {
    const answer = await window.askServer(request);
    if (!answer) throw new Error('net::ERR_CONNECTION_REFUSED');
    return answer;
  },
};

/** Load the plugin as Obsidian loads it; `data` is its data.json. */
async function loadPlugin(code, data) {
  desk.data = data;
  desk.paths = Object.keys(await window.readFiles());
  const module = { exports: {} };
  new Function('require', 'module', 'exports', code)(() => obsidian, module, module.exports);
  desk.plugin = new module.exports(app);
  await desk.plugin.onload();
}
