/** A style sheet imported is its text; whoever imports it puts it into a style element. */
declare module '*.css' {
  const text: string;
  export default text;
}
