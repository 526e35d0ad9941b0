// Owns the start of the page.
import { mount } from 'svelte';
import App from './App.svelte';
import { applyTheme } from './lib/prefs.svelte';
import { startRouter } from './lib/router.svelte';
import './tokens.css';
import './base.css';

applyTheme();
startRouter();
mount(App, { target: document.getElementById('app')! });
