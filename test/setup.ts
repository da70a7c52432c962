// Vitest loads this file before each test file, and anew: what is to be loaded once is in a module of its own.
import './clock.js'
