// Owns the loading of the drawing library with its style, as one part that the first plot asks for.
import 'uplot/dist/uPlot.min.css';
export { default } from 'uplot';
