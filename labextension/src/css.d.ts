/** A style sheet imported is its text; whoever imports it puts it into a style element. */
declare module '*.css' {
  const text: string;
  export default text;
}

/** A picture imported is its text. */
declare module '*.svg' {
  const text: string;
  export default text;
}
