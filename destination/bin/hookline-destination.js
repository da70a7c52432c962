#!/usr/bin/env node
// The command. It is kept outside of dist/, so that npm can link it in a checkout that is not built yet.
import '../dist/start.js'
