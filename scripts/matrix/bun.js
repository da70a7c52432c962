/* global Bun */
import { createApp } from './app.js'

const { PORT, ENDPOINT, SECRET } = process.env
Bun.serve({ port: Number(PORT), hostname: '127.0.0.1', fetch: createApp({ ENDPOINT, SECRET }) })
