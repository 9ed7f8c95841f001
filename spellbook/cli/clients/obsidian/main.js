// @ts-check
/*
 * Spellbook for Obsidian: search, related notes, and the state of the index. MIT License.
 *
 * It asks one address, that of your own `spellbook serve`, and only on this machine or by https.
 * What notes say is put on the screen as text, never as HTML.
 */
'use strict';

const obsidian = require('obsidian');

/**
 * @typedef {{path: string, line: number, title: string, heading: string, text: string}} Hit
 * @typedef {{path: string, title: string, line: number, detail: string, cls: string}} Row
 * @typedef {{path: string | null, title: string | null, relation?: string, relations?: string[]}} Other
 * @typedef {{links: Other[], backlinks: Other[], related: Other[]}} Around
 * @typedef {'asking' | 'ready' | 'away' | 'token' | 'address' | 'refused'} Kind
 * @typedef {{kind: Kind, pending: number, told: string}} State
 */

const ADDRESS = 'http://127.0.0.1:17950';
const LOCAL_HOSTS = ['localhost', '127.0.0.1', '[::1]'];
const RELATED = 'spellbook-related';
const TOKEN_KEY = 'spellbook-token';

// Milliseconds, chosen by hand: pauses before asking, between looks at the state, until an answer is given up.
const TYPING_PAUSE = 250;
const WRITING_PAUSE = 1_500;
const STATE_INTERVAL = 15_000;
const ANSWER_TIMEOUT = 20_000;

const HITS = 12;
const NEIGHBOURS = 8;
const EXCERPT = 220;
/** Letters before and after the cursor that are compared with other notes. */
const LETTERS_BEFORE = 1_000;
const LETTERS_AFTER = 500;

/** What is said in English and in Korean; {} is a value. */
const MESSAGES = {
  search: ['Search by meaning and words', '의미와 단어로 검색'],
  showRelated: ['Show related notes', '관련 노트 보기'],
  related: ['Related notes', '관련 노트'],
  ask: ['Ask in your own words…', '평소 쓰는 말로 검색하세요…'],
  choose: ['to choose', '고르기'],
  open: ['to open', '열기'],
  close: ['to close', '닫기'],
  type: ['Type a question or some words.', '질문이나 단어를 입력하세요.'],
  nothing: ['No note answers this.', '답이 되는 노트가 없습니다.'],
  closest: ['Not sure; closest:', '확실하지 않지만 가장 가까운 노트:'],
  noNote: ['Open a note to see what is related to it.', '노트를 열면 관련 노트를 보여 줍니다.'],
  noRelated: ['Nothing related yet.', '아직 관련 노트가 없습니다.'],
  meaning: ['Close in meaning', '뜻이 가까운 노트'],
  linked: ['Linked', '링크로 이어진 노트'],
  shared: ['Sharing links, tags or keywords', '링크, 태그, 키워드를 공유하는 노트'],
  from: ['linked from here', '이 노트가 가리킴'],
  to: ['links here', '이 노트를 가리킴'],
  elsewhere: [
    'There is no {} in this vault. Does the server serve another vault?',
    '이 보관함에 {} 노트가 없습니다. 서버가 다른 보관함을 쓰고 있는지 확인하세요.',
  ],
  asking: ['asking the server', '서버에 연결하는 중'],
  ready: ['up to date', '최신 상태'],
  pending: ['{} pending', '{}개 대기 중'],
  pendingNext: [
    '{} texts are not searchable by meaning yet. Search by words finds them already.',
    '글 {}개는 아직 의미로 찾을 수 없습니다. 단어로는 이미 찾을 수 있습니다.',
  ],
  away: ['server not running', '서버가 실행되고 있지 않음'],
  awayNext: [
    'Nothing answers at {}. Run `spellbook serve` for this vault, then click here.',
    '{}에서 응답이 없습니다. 이 보관함으로 `spellbook serve`를 실행한 뒤 여기를 누르세요.',
  ],
  token: ['token needed', '토큰 필요'],
  tokenNext: [
    'The server at {} needs a token. Run `spellbook token add obsidian --may read`, and paste it into the settings.',
    '{} 서버에 토큰이 필요합니다. `spellbook token add obsidian --may read`로 만들어 설정에 넣으세요.',
  ],
  address: ['address not allowed', '쓸 수 없는 주소'],
  addressNext: [
    '{} is not asked. Give an address on this machine, such as http://127.0.0.1:17950, or one with https.',
    '{} 주소에는 연결하지 않습니다. http://127.0.0.1:17950처럼 이 컴퓨터의 주소나 https 주소를 쓰세요.',
  ],
  refused: ['server error', '서버 오류'],
  refusedNext: [
    'What answers at {} is not Spellbook. Does another program use this address?',
    '{}의 응답이 Spellbook의 것이 아닙니다. 다른 프로그램이 이 주소를 쓰고 있는지 확인하세요.',
  ],
  addressName: ['Address of the server', '서버 주소'],
  addressHelp: [
    'Where `spellbook serve` listens: an address on this machine, or one with https.',
    '`spellbook serve`의 주소. 이 컴퓨터의 주소나 https 주소만 됩니다.',
  ],
  tokenName: ['Token', '토큰'],
  tokenHelp: [
    'Only if the server needs one. It stays on this device, outside the vault, and is sent to this address only.',
    '서버에 필요할 때만 넣습니다. 보관함 밖, 이 기기에만 저장하고 이 주소로만 보냅니다.',
  ],
};
const LANGUAGE = window.localStorage.getItem('language') === 'ko' ? 1 : 0;

function say(/** @type {keyof typeof MESSAGES} */ name, /** @type {string | number} */ value = '') {
  return MESSAGES[name][LANGUAGE].replace('{}', () => String(value));
}

/** Return the origin of an address that may be asked, '' for any other. */
function allowed(/** @type {string} */ address) {
  try {
    const url = new URL(address.trim());
    const isSafe = url.protocol === 'https:' || (url.protocol === 'http:' && LOCAL_HOSTS.includes(url.hostname));
    return isSafe && !url.username && !url.password ? url.origin : '';
  } catch {
    return '';
  }
}

function paused(/** @type {number} */ time) {
  return new Promise(done => window.setTimeout(done, time));
}

/** Return the first words of a passage on one line, without its heading. */
function excerpt(/** @type {string} */ text) {
  const plain = text.replace(/^\s*#{1,6} [^\n]*\n/, '').replace(/\s+/g, ' ').trim();
  return plain.length > EXCERPT ? `${plain.slice(0, EXCERPT)}…` : plain;
}

/** Return what is written around a place of a note: of its section, and no frontmatter. */
function written(/** @type {string} */ text, /** @type {number} */ cursor) {
  const body = /^---\r?\n[^]*?\r?\n---\r?\n/.exec(text)?.[0].length ?? 0;
  const place = Math.max(body, cursor);
  const before = text.slice(Math.max(body, place - LETTERS_BEFORE), place);
  const heading = before.search(/\n#{1,6} (?![^]*\n#{1,6} )/);
  return before.slice(Math.max(0, heading)) + text.slice(place, place + LETTERS_AFTER).split(/\n#{1,6} /)[0];
}

class SpellbookPlugin extends obsidian.Plugin {
  settings = { address: ADDRESS };
  /** @type {State} */
  state = { kind: 'asking', pending: 0, told: '' };
  /** @type {HTMLElement | null} */
  statusEl = null;
  tab = new SpellbookSettings(this);

  async onload() {
    const saved = await this.loadData();
    if (typeof saved?.address === 'string') this.settings.address = saved.address;
    this.statusEl = this.addStatusBarItem();
    this.statusEl.addClass('spellbook-state');
    this.registerDomEvent(this.statusEl, 'click', async () => {
      await this.check();
      new obsidian.Notice(this.next() || this.short());
    });
    this.registerView(RELATED, leaf => new RelatedView(leaf, this));
    this.addSettingTab(this.tab);
    this.addRibbonIcon('book-open', say('search'), () => new SearchModal(this).open());
    this.addCommand({ id: 'search', name: say('search'), callback: () => new SearchModal(this).open() });
    this.addCommand({ id: 'related', name: say('showRelated'), callback: () => this.showRelated() });
    const soon = obsidian.debounce(() => this.related()?.refresh(), TYPING_PAUSE, true);
    const later = obsidian.debounce(() => this.related()?.refresh(), WRITING_PAUSE, true);
    this.registerEvent(this.app.workspace.on('file-open', () => soon()));
    this.registerEvent(this.app.workspace.on('editor-change', () => later()));
    this.register(() => [soon, later].forEach(each => each.cancel()));
    // A wrong token is not sent again and again: the server would lock this machine out.
    const look = () => document.hidden || this.state.kind === 'token' || this.check();
    this.registerInterval(window.setInterval(look, STATE_INTERVAL));
    this.show();
    this.app.workspace.onLayoutReady(() => this.check());
  }

  /** Return the pane of related notes, if it is open. */
  related() {
    const view = this.app.workspace.getLeavesOfType(RELATED)[0]?.view;
    return view instanceof RelatedView ? view : null;
  }

  async showRelated() {
    const workspace = this.app.workspace;
    const leaf = workspace.getLeavesOfType(RELATED)[0] ?? workspace.getRightLeaf(false);
    if (!leaf) return;
    await leaf.setViewState({ type: RELATED, active: true });
    await workspace.revealLeaf(leaf);
  }

  /** Ask for the state of the index. */
  async check() {
    await this.ask('/api/status', 'pending');
  }

  /**
   * Ask the server, and return its answer; null if there is none, and `state` says why. Throws nothing.
   * By `field` an answer is known to be of Spellbook.
   */
  async ask(/** @type {string} */ path, /** @type {string} */ field, /** @type {Record<string, string>} */ query = {}) {
    const origin = allowed(this.settings.address);
    if (!origin) return this.note('address');
    const token = this.token();
    const request = {
      url: `${origin}${path}?${new URLSearchParams(query)}`,
      headers: token ? { Authorization: `Bearer ${token}` } : undefined,
      throw: false,
    };
    let status = 0;
    let answer;
    try {
      const got = await Promise.race([obsidian.requestUrl(request), paused(ANSWER_TIMEOUT)]);
      status = got.status;
      answer = JSON.parse(got.text);
    } catch {
      // No answer, or none in JSON: `status` says which.
    }
    if (origin !== allowed(this.settings.address)) return null; // another address was set meanwhile
    if (!status) return this.note('away');
    if (status === 200 && answer?.[field] !== undefined) {
      const pending = answer.pending ?? answer.index?.pending ?? this.state.pending;
      this.note('ready', answer.warning, pending);
      return answer;
    }
    if (status === 404 && answer?.error) return null; // a note that is not indexed yet
    if (status === 401) return this.note('token');
    return this.note('refused', [answer?.error?.message, answer?.error?.details?.hint].filter(Boolean).join(' '));
  }

  /** Keep the state, and show it. */
  note(/** @type {Kind} */ kind, told = '', pending = 0) {
    const isOther = (kind === 'ready') !== (this.state.kind === 'ready');
    this.state = { kind, pending, told };
    this.show();
    if (isOther) this.related()?.refresh();
    return null;
  }

  show() {
    this.tab.show();
    if (!this.statusEl) return;
    this.statusEl.setText(`Spellbook: ${this.short()}`);
    obsidian.setTooltip(this.statusEl, this.next() || this.short(), { placement: 'top' });
  }

  /** Return the state in a few words. */
  short() {
    const { kind, pending } = this.state;
    return kind === 'ready' && pending ? say('pending', pending) : say(kind);
  }

  /** Return what to do about the state, '' for nothing. */
  next() {
    const { kind, pending, told } = this.state;
    if (told || kind === 'asking') return told;
    if (kind === 'ready') return pending ? say('pendingNext', pending) : '';
    return say(`${kind}Next`, this.settings.address);
  }

  /** Return the token for the address in use. One that was given for another address is not for this one. */
  token() {
    const kept = this.app.loadLocalStorage(TOKEN_KEY);
    return kept?.origin && kept.origin === allowed(this.settings.address) ? String(kept.token) : '';
  }

  setToken(/** @type {string} */ token) {
    const origin = allowed(this.settings.address);
    this.app.saveLocalStorage(TOKEN_KEY, token && origin ? { origin, token } : null);
  }

  async setAddress(/** @type {string} */ address) {
    this.settings.address = address || ADDRESS;
    await this.saveData({ ...(await this.loadData()), address: this.settings.address });
  }

  /** Open a note at a line, counted from 1; with the usual keys in a new tab. */
  async open(/** @type {string} */ path, /** @type {number} */ line, /** @type {MouseEvent | KeyboardEvent} */ event) {
    const file = this.app.vault.getFileByPath(obsidian.normalizePath(path));
    const leaf = file && this.app.workspace.getLeaf(obsidian.Keymap.isModEvent(event));
    if (leaf) await leaf.openFile(file, line > 1 ? { eState: { line: line - 1 } } : undefined);
    else new obsidian.Notice(say('elsewhere', path));
  }
}

/** @extends {obsidian.SuggestModal<Hit>} */
class SearchModal extends obsidian.SuggestModal {
  turn = 0;
  /** @type {Promise<Hit[]>} */
  latest = Promise.resolve([]);
  isSure = true;

  constructor(/** @type {SpellbookPlugin} */ plugin) {
    super(plugin.app);
    this.plugin = plugin;
    this.limit = HITS;
    this.emptyStateText = say('type');
    this.setPlaceholder(say('ask'));
    this.setInstructions([
      { command: '↑↓', purpose: say('choose') },
      { command: '↵', purpose: say('open') },
      { command: 'esc', purpose: say('close') },
    ]);
  }

  getSuggestions(/** @type {string} */ query) {
    return (this.latest = this.find(query.trim(), ++this.turn));
  }

  /**
   * Return the hits of a question, or of what was typed since.
   * @param {string} query
   * @param {number} turn
   * @returns {Promise<Hit[]>}
   */
  async find(query, turn) {
    this.emptyStateText = say('type');
    if (!query) return [];
    await paused(TYPING_PAUSE);
    if (turn !== this.turn) return this.latest;
    const answer = await this.plugin.ask('/api/search', 'hits', { query, limit: String(HITS), per_note: '3' });
    if (turn !== this.turn) return this.latest;
    this.isSure = Boolean(answer?.hits.length);
    this.emptyStateText = answer ? say('nothing') : this.plugin.next() || this.plugin.short();
    return answer ? (this.isSure ? answer.hits : (answer.closest ?? [])) : [];
  }

  renderSuggestion(/** @type {Hit} */ hit, /** @type {HTMLElement} */ el) {
    const isShort = !this.isSure && el.previousElementSibling;
    if (!this.isSure && !isShort) el.createDiv({ cls: 'spellbook-why', text: say('closest') });
    el.createDiv({ text: hit.title });
    if (hit.heading && hit.heading !== hit.title) el.createDiv({ cls: 'spellbook-heading', text: hit.heading });
    if (!isShort) el.createDiv({ cls: 'spellbook-excerpt', text: excerpt(hit.text) });
  }

  onChooseSuggestion(/** @type {Hit} */ hit, /** @type {MouseEvent | KeyboardEvent} */ event) {
    this.plugin.open(hit.path, hit.line, event);
  }
}

class RelatedView extends obsidian.ItemView {
  turn = 0;
  icon = 'book-open';

  constructor(/** @type {import('obsidian').WorkspaceLeaf} */ leaf, /** @type {SpellbookPlugin} */ plugin) {
    super(leaf);
    this.plugin = plugin;
  }

  getViewType() {
    return RELATED;
  }

  getDisplayText() {
    return say('related');
  }

  async onOpen() {
    await this.refresh();
  }

  /** Show what is related to the active note, unless it is asked again meanwhile. */
  async refresh() {
    const turn = ++this.turn;
    const file = this.app.workspace.getActiveFile();
    if (file?.extension !== 'md') return this.fill({}, say('noNote'));
    if (this.plugin.state.kind === 'token') return this.fill({}, this.plugin.next());
    const query = `${file.basename}\n${await this.around(file)}`;
    const [note, answer] = await Promise.all([
      this.plugin.ask(`/api/notes/${file.path.split('/').map(encodeURIComponent).join('/')}`, 'backlinks'),
      this.plugin.ask('/api/search', 'hits', { query, mode: 'memorize', limit: String(NEIGHBOURS), per_note: '1' }),
    ]);
    if (turn !== this.turn) return undefined;
    if (this.plugin.state.kind !== 'ready') return this.fill({}, this.plugin.next());
    const { linked, shared } = neighbours(file.path, note);
    const known = new Set([file.path, ...linked.map(each => each.path)]);
    /** @type {Hit[]} */
    const hits = (answer?.hits ?? []).filter((/** @type {Hit} */ hit) => !known.has(hit.path));
    const near = hits.map(hit => ({ ...hit, detail: excerpt(hit.text), cls: 'spellbook-excerpt' }));
    const others = shared.filter(each => !hits.some(hit => hit.path === each.path));
    return this.fill({ [say('meaning')]: near, [say('linked')]: linked, [say('shared')]: others }, say('noRelated'));
  }

  /** Return what is written where the cursor is in a note, or at its beginning. */
  async around(/** @type {import('obsidian').TFile} */ file) {
    const view = this.app.workspace.getActiveViewOfType(obsidian.MarkdownView);
    if (view?.file === file) {
      const editor = view.editor;
      return written(editor.getValue(), editor.posToOffset(editor.getCursor()));
    }
    return written(await this.app.vault.cachedRead(file), 0);
  }

  fill(/** @type {Record<string, Row[]>} */ groups, /** @type {string} */ otherwise) {
    this.contentEl.empty();
    const filled = Object.entries(groups).filter(([, rows]) => rows.length);
    if (!filled.length) this.contentEl.createDiv({ cls: 'spellbook-why', text: otherwise });
    for (const [name, rows] of filled) {
      this.contentEl.createDiv({ cls: 'spellbook-group', text: name });
      for (const row of rows) {
        const el = this.contentEl.createDiv({ cls: 'spellbook-note' });
        const link = el.createEl('a', { text: row.title, href: '#' });
        link.addEventListener('click', event => {
          event.preventDefault();
          this.plugin.open(row.path, row.line, event);
        });
        if (row.detail) el.createDiv({ cls: row.cls, text: row.detail });
      }
    }
  }
}

/** Return the notes that a note is linked with, and those that share something with it. */
function neighbours(/** @type {string} */ path, /** @type {Around | null} */ note) {
  /** @type {Map<string, Row>} */
  const linked = new Map();
  const add = (/** @type {Other} */ other, /** @type {string} */ why, /** @type {string | undefined} */ relation) => {
    if (!other.path || other.path === path || linked.has(other.path)) return;
    const detail = relation ? `${why} (${relation})` : why;
    linked.set(other.path, { path: other.path, title: other.title ?? other.path, line: 1, detail, cls: 'spellbook-why' });
  };
  for (const link of note?.links ?? []) add(link, say('from'), link.relation);
  for (const back of note?.backlinks ?? []) add(back, say('to'), back.relations?.[0]);
  const shared = (note?.related ?? []).filter(each => each.path && !linked.has(each.path));
  return {
    linked: [...linked.values()],
    shared: shared.map(each => ({ ...each, line: 1, detail: '', cls: 'spellbook-why' })),
  };
}

class SpellbookSettings extends obsidian.PluginSettingTab {
  /** @type {HTMLElement | null} */
  stateEl = null;

  constructor(/** @type {SpellbookPlugin} */ plugin) {
    super(plugin.app, plugin);
    this.plugin = plugin;
  }

  display() {
    const { containerEl, plugin } = this;
    containerEl.empty();
    const address = this.field('address', plugin.settings.address);
    const token = this.field('token', plugin.token());
    token.type = 'password';
    this.stateEl = containerEl.createEl('p', { cls: 'spellbook-why' });
    this.show();
    // A field counts when it is left: no half-typed address is asked.
    address.addEventListener('change', async () => {
      await plugin.setAddress(address.value.trim());
      token.value = plugin.token();
      await plugin.check();
    });
    token.addEventListener('change', async () => {
      plugin.setToken(token.value.trim());
      await plugin.check();
    });
  }

  show() {
    this.stateEl?.setText(`${this.plugin.short()}. ${this.plugin.next()}`);
  }

  /** Add a field, and return where one types. */
  field(/** @type {'address' | 'token'} */ name, /** @type {string} */ value) {
    const setting = new obsidian.Setting(this.containerEl).setName(say(`${name}Name`)).setDesc(say(`${name}Help`));
    return setting.controlEl.createEl('input', { type: 'text', value });
  }
}

module.exports = SpellbookPlugin;
