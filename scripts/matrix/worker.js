import { createApp } from './app.js'

let app
export default {
  fetch: (request, env) => {
    app ??= createApp(env)
    return app(request)
  },
}
