import { buildPage } from '../../scripts/build-page.js'

/** Before the tests of this run: the page as it is served, from what it is made of now. */
export default buildPage
