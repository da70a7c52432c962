/* global Deno */
import { createApp } from './app.js'

const [PORT, ENDPOINT, SECRET] = ['PORT', 'ENDPOINT', 'SECRET'].map((name) => Deno.env.get(name))
Deno.serve({ port: Number(PORT), hostname: '127.0.0.1' }, createApp({ ENDPOINT, SECRET }))
