/** The project's picture, in the toolbar, menus and the launcher. */

import svg from '../../../docs/_static/icon.svg';

export const ICON = `data:image/svg+xml,${encodeURIComponent(svg)}`;
/** The rule of the class that commands name their icon by. */
export const ICON_RULE = `.nki-lab-icon { background-image: url("${ICON}"); }`;
